//! Contention: changes beside another transaction that has not ended, which is one of the test's
//! own, or concurrent changes that run many times.

use millrace_catalog::testing::{self, DatabaseKind, TestDatabase, holding};
use millrace_catalog::{
    Actor, ChangeError, Cleanup, ConditionLocks, ConditionOutcome, Level, Patch, Scopes,
};
use millrace_organizations::testing::fixture::Fixture;
use millrace_organizations::testing::test_env::{DAY_MICROS, START, TestEnv, actor};
use millrace_organizations::{
    IdempotencyClaim, IdempotencyKeys, NewPersonalKey, NewPlugin, Organizations, PersonalKeys,
    PluginFamily, PluginFields, PluginWriter, Plugins, ResponseOwners,
};
use millrace_rows::Micros;
use sea_orm::ConnectionTrait;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Repetitions of each race.
const ROUNDS: usize = 12;
/// Time limit of a change that should not wait at all.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

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
        is_global: Patch::Value(is_global),
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

on_both!(nothing_is_logged_for_a_deleted_organization,);

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
