//! Contention: changes beside another transaction that has not ended, which is one of the test's
//! own, or concurrent changes that run many times.

use crate::fixture::Fixture;
use crate::test_env::{DAY_MICROS, START, TestEnv, actor};
use millrace_catalog::testing::{self, DatabaseKind, TestDatabase, connected};
use millrace_catalog::{
    Actor, BatchExport, BatchExports, ChangeError, Cleanup, ConditionLocks, ConditionOutcome,
    DestinationChange, DestinationLimits, DestinationType, ExportPlace, ExportWriter,
    IdempotencyClaim, IdempotencyKeys, Level, NewPersonalKey, NewPlugin, Organizations,
    PersonalKeys, PluginFamily, PluginFields, PluginWriter, Plugins, ResponseOwners, Scopes,
    SecretKey,
};
use millrace_rows::Micros;
use sea_orm::{ConnectionTrait, DatabaseTransaction, TransactionTrait};
use serde_json::json;
use std::pin::pin;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::task::JoinSet;
use uuid::Uuid;

/// Feature that exports need.
const DATA_PIPELINES: &str = "data_pipelines";
/// Repetitions of each race.
const ROUNDS: usize = 12;
/// Time limit of a change that should not wait at all.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Time in which a change comes as far as the lock that another transaction holds.
const WAIT: Duration = Duration::from_millis(300);

/// Transaction that has run a statement and stays open.
pub async fn holding(database: &TestDatabase, sql: &str) -> DatabaseTransaction {
    let connection = connected(database.url()).await.unwrap();
    let open = connection.begin().await.unwrap();
    open.execute_unprepared(sql).await.unwrap();
    open
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_skips_responses_that_another_one_deletes() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let env = TestEnv::new(&database).await;
    let nobody = ResponseOwners::default();
    for id in ["a", "b", "c"] {
        let claimed = IdempotencyKeys::new(&env.catalog)
            .claim(id, "1", nobody)
            .await
            .unwrap();
        assert!(matches!(claimed, IdempotencyClaim::New(_)));
    }
    env.clock.set(Micros(START.0 + DAY_MICROS));
    let other = "DELETE FROM idempotency_keys WHERE id = 'b'";
    let other = holding(&database, other).await;
    // The claim deletes "a" and "c", and does not wait for the holder of "b", who wants these.
    let claimed = IdempotencyKeys::new(&env.catalog).claim("new", "1", nobody);
    let claimed = tokio::time::timeout(TEST_TIMEOUT, claimed).await;
    let claimed = claimed.expect("it waits").unwrap();
    assert!(matches!(claimed, IdempotencyClaim::New(_)), "{claimed:?}");
    other
        .execute_unprepared("DELETE FROM idempotency_keys WHERE id IN ('a', 'c')")
        .await
        .unwrap();
    other.commit().await.unwrap();
    let left = database.first_column("SELECT id FROM idempotency_keys");
    assert_eq!(left.await.unwrap(), ["new"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_claims_delete_old_responses_at_the_same_time() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let env = TestEnv::new(&database).await;
    let fill = format!(
        "INSERT INTO idempotency_keys (id, request_hash, status, body, created_at) {} \
         SELECT 'old ' || i, '1', 200, '', {} - i % 7 FROM n ORDER BY random()",
        testing::numbers(400),
        START.0 - 2 * DAY_MICROS,
    );
    for _ in 0..ROUNDS {
        database
            .execute("DELETE FROM idempotency_keys")
            .await
            .unwrap();
        database.execute(&fill).await.unwrap();
        let mut claims = JoinSet::new();
        for number in 1..=24_u32 {
            let catalog = env.catalog.clone();
            claims.spawn(async move {
                // Half of them claim old keys, which another claim may be deleting.
                let age = ["new", "old"][number as usize % 2];
                let id = format!("{age} {number}");
                let nobody = ResponseOwners::default();
                IdempotencyKeys::new(&catalog).claim(&id, "1", nobody).await
            });
        }
        for claimed in claims.join_all().await {
            let claimed = claimed.unwrap();
            assert!(matches!(claimed, IdempotencyClaim::New(_)), "{claimed:?}");
        }
    }
    let old = format!(
        "SELECT count(*)::text FROM idempotency_keys WHERE created_at < {}",
        START.0
    );
    assert_eq!(database.first_column(&old).await.unwrap(), ["0"]);
}

fn writer<'a>(actor: &'a Actor, key: &'a SecretKey, organization_id: Uuid) -> ExportWriter<'a> {
    ExportWriter {
        actor,
        place: ExportPlace {
            organization_id,
            project_id: None,
        },
        key,
        limits: DestinationLimits {
            allow_private: false,
            is_public: |_| true,
            export_root: None,
        },
    }
}

async fn new_export(fixture: &Fixture, key: &SecretKey) -> BatchExport {
    let config = json!({ "url": "https://in.example.com/", "token": "s3cret" });
    let new = testing::new_export(DestinationChange {
        kind: Some(DestinationType::Http),
        config: config.as_object().unwrap().clone(),
    });
    let system = Actor::system();
    let writer = writer(&system, key, fixture.organization_id);
    let made = BatchExports::new(&fixture.catalog)
        .create(writer, new)
        .await;
    made.unwrap().export
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_resealed_while_exports_are_paused_and_deleted() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let fixture = Arc::new(Fixture::open(&database).await);
    let (system, id) = (Actor::system(), fixture.organization_id);
    let place = ExportPlace {
        organization_id: id,
        project_id: None,
    };
    let mut key = SecretKey::generate().unwrap();
    for round in 0..ROUNDS {
        let mut made = Vec::new();
        for _ in 0..8 {
            made.push(new_export(&fixture, &key).await.id);
        }
        // Rows lie in the order of their last write: against the order of ids.
        for export in made.iter().rev() {
            let touched = BatchExports::new(&fixture.catalog).pause(&system, place, *export);
            touched.await.unwrap();
            let touched =
                BatchExports::new(&fixture.catalog).unpause(&system, place, *export, false);
            touched.await.unwrap();
        }
        let next = key.successor().unwrap();
        let mut changes: JoinSet<Result<(), ChangeError>> = JoinSet::new();
        let (resealer, sealing) = (fixture.clone(), next.clone());
        changes.spawn(async move {
            BatchExports::new(&resealer.catalog)
                .reseal(&sealing)
                .await
                .map(drop)
        });
        let pauser = fixture.clone();
        changes.spawn(async move {
            let system = Actor::system();
            let feature = [DATA_PIPELINES.to_owned()];
            for (on, off) in [(&[][..], &feature[..]), (&feature, &[])] {
                let set = Organizations::new(&pauser.catalog).set_features(&system, id, on, off);
                set.await?;
            }
            Ok(())
        });
        let (deleter, last) = (fixture.clone(), made[round % made.len()]);
        changes.spawn(async move {
            let system = Actor::system();
            BatchExports::new(&deleter.catalog)
                .delete(&system, place, last)
                .await
        });
        for outcome in changes.join_all().await {
            outcome.unwrap();
        }
        key = next.with_older(0);
        for export in made.iter().filter(|export| **export != last) {
            let seen = BatchExports::new(&fixture.catalog)
                .get(place, *export)
                .await
                .unwrap();
            let secrets = seen.unwrap().export.secrets(&key).unwrap();
            assert_eq!(secrets["token"], "s3cret");
        }
    }
}

/// Waits until a statement waits for a lock.
pub async fn until_one_waits(database: &TestDatabase) {
    let waiting = "SELECT count(*)::text FROM pg_stat_activity \
         WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while database.first_column(waiting).await.unwrap() == ["0"] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resealing_holds_no_export_while_it_waits_for_another() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let fixture = Arc::new(Fixture::open(&database).await);
    let key = SecretKey::generate().unwrap();
    let mut ids = [
        new_export(&fixture, &key).await.id,
        new_export(&fixture, &key).await.id,
    ];
    ids.sort_unstable();
    let [smaller, larger] = ids;
    let update = |id: Uuid| format!("UPDATE batch_exports SET name = name WHERE id = '{id}'");
    let other = holding(&database, &update(larger)).await;
    let (resealer, next) = (fixture.clone(), key.successor().unwrap());
    let resealed =
        tokio::spawn(async move { BatchExports::new(&resealer.catalog).reseal(&next).await });
    let waits = tokio::time::timeout(TEST_TIMEOUT, until_one_waits(&database)).await;
    waits.expect("nothing waits for the held export");
    let update = update(smaller);
    let updated = tokio::time::timeout(TEST_TIMEOUT, other.execute_unprepared(&update)).await;
    updated.expect("it waits").expect("it is a deadlock");
    other.commit().await.unwrap();
    assert_eq!(resealed.await.unwrap().unwrap(), 2);
}

/// A change that locks several organizations locks them in the order of their ids. One on a
/// condition has the owner locked before all others, so it may wait for none of these.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_withdrawal_on_a_condition_waits_for_no_organization_that_uses_the_plugin() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let fixture = Fixture::open(&database).await;
    let actor = Actor::command_line();
    let writer = PluginWriter {
        actor: &actor,
        organization_id: fixture.foreign_id,
        family: PluginFamily::Plugins,
        is_operator: true,
    };
    let global_is = |is_global: bool| PluginFields {
        is_global: Some(is_global),
        ..PluginFields::default()
    };
    let new = NewPlugin {
        fields: global_is(true),
        ..NewPlugin::default()
    };
    let plugin = Plugins::new(&fixture.catalog).create(writer, new).await;
    let plugin = plugin.unwrap().plugin.id;
    let added = fixture
        .catalog
        .configure_plugin(plugin, fixture.project_id, true, json!({}), None);
    added.await.unwrap();
    let user = format!(
        "UPDATE organizations SET name = name WHERE id = '{}'",
        fixture.organization_id
    );
    let other = holding(&database, &user).await;
    let locks = ConditionLocks {
        organization_id: Some(fixture.foreign_id),
        ..ConditionLocks::default()
    };
    let catalog = fixture.catalog.clone();
    let catalog = catalog.on_condition(locks, |_| async { ConditionOutcome::Holds });
    let withdrawn = Plugins::new(&catalog).update(writer, plugin, global_is(false));
    let withdrawn = tokio::time::timeout(TEST_TIMEOUT, withdrawn).await;
    withdrawn.expect("it waits").unwrap();
    other.commit().await.unwrap();
    while Cleanup::new(&fixture.catalog)
        .delete_leftovers()
        .await
        .unwrap()
        > 0
    {}
    let uses = "SELECT count(*)::text FROM plugin_configs";
    assert_eq!(database.first_column(uses).await.unwrap(), ["0"]);
}

on_both!(
    a_secret_is_sealed_with_the_key_of_the_time_at_which_it_is_stored,
    nothing_is_logged_for_a_deleted_organization,
);

async fn a_secret_is_sealed_with_the_key_of_the_time_at_which_it_is_stored(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let old = SecretKey::generate().unwrap();
    let kept = Arc::new(RwLock::new(old.with_older(0)));
    let read = kept.clone();
    let key = old.with_older(0);
    let key = key.with_reload(move || Some(read.read().unwrap().clone()));
    // Its transaction waits for this one before anything is sealed.
    let other = holding(&database, "UPDATE organizations SET name = name").await;
    let mut made = pin!(new_export(&fixture, &key));
    let waited = tokio::time::timeout(WAIT, made.as_mut()).await;
    assert!(waited.is_err(), "it waits for nothing");
    // The second rotation drops the key.
    let next = old.successor().unwrap().successor().unwrap().with_older(1);
    *kept.write().unwrap() = next.clone();
    other.commit().await.unwrap();
    let made = made.await;
    assert_eq!(made.secrets(&next).unwrap()["token"], "s3cret");
}

async fn nothing_is_logged_for_a_deleted_organization(database: TestDatabase) {
    let env = Arc::new(TestEnv::new(&database).await);
    let user = env.user("bob").await;
    for _ in 0..ROUNDS {
        let mut organizations = Vec::new();
        for number in 0..12 {
            let (system, name) = (Actor::system(), format!("Organization {number}"));
            let made = Organizations::new(&env.catalog).create(&system, &*name, None);
            let id = made.await.unwrap().id;
            let added = env.catalog.add_member(id, user.id, Level::Member);
            added.await.unwrap();
            organizations.push(id);
        }
        let mut changes: JoinSet<Result<(), ChangeError>> = JoinSet::new();
        for number in 0..3 {
            let (env, user) = (env.clone(), user.clone());
            changes.spawn(async move {
                let new = NewPersonalKey {
                    email: user.email.clone(),
                    label: format!("Key {number}"),
                    scopes: Scopes::all(),
                    expires_at: None,
                    scoped_organizations: None,
                };
                let who = actor(&user);
                let made = PersonalKeys::new(&env.catalog).create(&who, new).await?;
                let id = made.record.id.to_string();
                PersonalKeys::new(&env.catalog)
                    .revoke(&who, &id)
                    .await
                    .map(drop)
            });
        }
        for id in organizations {
            let env = env.clone();
            changes.spawn(async move {
                let system = Actor::system();
                Organizations::new(&env.catalog).delete(&system, id).await
            });
        }
        for outcome in changes.join_all().await {
            outcome.unwrap();
        }
        // A trigger counts entries of the log: one that is written after its organization was
        // deleted leaves a count. Older entries are deleted piece by piece.
        for table in ["activity_counts", "activity_log"] {
            let leftovers = format!(
                "SELECT CAST(COUNT(*) AS TEXT) FROM {table} WHERE organization_id IS NOT NULL \
                 AND organization_id NOT IN (SELECT id FROM organizations)"
            );
            let leftovers = database.first_column(&leftovers).await.unwrap();
            assert_eq!(leftovers, ["0"], "{table}");
            while Cleanup::new(&env.catalog).delete_leftovers().await.unwrap() > 0 {}
        }
    }
}
