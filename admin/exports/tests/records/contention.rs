//! Contention: changes of exports beside another transaction that has not ended, which is one of
//! the test's own, or concurrent changes that run many times.

use millrace_catalog::testing::{DatabaseKind, TestDatabase, holding, until_one_waits};
use millrace_catalog::{Actor, BatchExport, ChangeError, DestinationType};
use millrace_exports::testing;
use millrace_exports::{
    BatchExports, DestinationChange, DestinationLimits, ExportPlace, ExportPlanner, ExportWriter,
    SecretKey, secrets_of, set_features,
};
use millrace_organizations::Organizations;
use millrace_organizations::testing::fixture::Fixture;
use millrace_organizations::testing::test_env::TestEnv;
use sea_orm::ConnectionTrait;
use serde_json::json;
use std::pin::pin;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::task::JoinSet;
use uuid::Uuid;

on_both!(a_secret_is_sealed_with_the_key_of_the_time_at_which_it_is_stored,);

/// Feature that exports need.
const DATA_PIPELINES: &str = "data_pipelines";
/// Repetitions of each race.
const ROUNDS: usize = 12;
/// Concurrent reads, more than there are connections.
const READS: usize = 16;
/// Time limit of a change that should not wait at all.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Time in which a change comes as far as the lock that another transaction holds.
const WAIT: Duration = Duration::from_millis(300);
/// Time after which a statement is given up that waits for a lock.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(1);

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
                let set = set_features(&pauser.catalog, &system, id, on, off);
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
            let secrets = secrets_of(&seen.unwrap().export, &key).unwrap();
            assert_eq!(secrets["token"], "s3cret");
        }
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
    assert_eq!(secrets_of(&made, &next).unwrap()["token"], "s3cret");
}

/// Reads are given up while a table is locked: on PostgreSQL each statement waits on for the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_were_given_up_keep_no_connection() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let env = TestEnv::new(&database).await;
    let holder = holding(&database, "LOCK TABLE batch_exports").await;
    let mut reads = JoinSet::new();
    for _ in 0..READS {
        let catalog = env.catalog.clone();
        reads.spawn(async move {
            tokio::time::timeout(GIVEN_UP_AFTER, ExportPlanner::new(&catalog).has_work())
                .await
                .is_err()
        });
    }
    assert!(reads.join_all().await.into_iter().all(|given_up| given_up));
    let seen = Organizations::new(&env.catalog).list_all().await;
    assert_eq!(seen.unwrap().len(), 1, "the lock is still held");
    holder.rollback().await.unwrap();
}
