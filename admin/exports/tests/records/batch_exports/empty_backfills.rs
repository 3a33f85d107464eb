//! Backfills that ended without runs: they keep no settings, and of many the oldest is deleted.

use super::{HOUR, TestEnv, hourly_run};
use millrace_catalog::UtcTime;
use millrace_catalog::limits::EMPTY_BACKFILLS_MAX;
use millrace_catalog::testing::{TestDatabase, numbers, random_uuid};
use millrace_exports::{BackfillRange, Backfills};
use millrace_organizations::testing::fixture::{ALL, NOW};
use uuid::Uuid;

on_both!(
    only_backfills_with_runs_keep_their_settings,
    a_new_backfill_replaces_the_oldest_of_a_thousand_empty_ones,
);

/// Asks for a backfill; returns its id.
async fn started(env: &TestEnv, export_id: Uuid, range: BackfillRange) -> Uuid {
    let fixture = &env.fixture;
    let catalog = &fixture.catalog;
    let started = Backfills::new(catalog).start(&fixture.actor, env.place(), export_id, range);
    started.await.unwrap().id
}

async fn has_settings(env: &TestEnv, export_id: Uuid, id: Uuid) -> bool {
    let catalog = &env.fixture.catalog;
    let found = Backfills::new(catalog)
        .get(env.place(), export_id, id)
        .await;
    found.unwrap().unwrap().asked_for.is_some()
}

async fn only_backfills_with_runs_keep_their_settings(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let of_no_window = BackfillRange {
        start_at: Some(UtcTime(NOW.0 + 1)),
        end_at: Some(UtcTime(NOW.0 + HOUR)),
    };
    let everything = BackfillRange::default();
    let why = "no rows";
    for (end, range, is_kept) in [
        ("none", everything, true),
        ("no window", of_no_window, false),
        ("empty", everything, false),
        ("failed", everything, false),
        ("cancelled", everything, false),
        ("cancelled with a run", everything, true),
    ] {
        let export_id = env.made().await.id;
        let id = started(&env, export_id, range).await;
        match end {
            "empty" => assert!(Backfills::new(catalog).end_empty(id, why).await.unwrap()),
            "failed" => assert!(Backfills::new(catalog).fail(id, why).await.unwrap()),
            "cancelled with a run" => {
                assert!(Backfills::new(catalog).plan(id, 2).await.unwrap());
                env.begin_run(export_id, hourly_run(0, Some(id))).await;
            }
            _ => {}
        }
        if end.starts_with("cancelled") {
            let cancelled = Backfills::new(catalog).cancel(actor, place, export_id, id);
            cancelled.await.unwrap();
        }
        assert_eq!(has_settings(&env, export_id, id).await, is_kept, "{end}");
    }
}

async fn a_new_backfill_replaces_the_oldest_of_a_thousand_empty_ones(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (export_id, other) = (env.made().await.id, env.made().await.id);
    // Older than all others, but it has not ended.
    started(&env, export_id, BackfillRange::default()).await;
    let most = u32::try_from(EMPTY_BACKFILLS_MAX).unwrap();
    let uuid = random_uuid(&database);
    let empty = format!(
        "INSERT INTO batch_export_backfills (id, batch_export_id, status, total_runs, \
         finished_runs, created_at, finished_at, last_updated_at) {} SELECT {uuid}, \
         batch_exports.id, 'Completed', 0, 0, {} + i, 1, 1 FROM n, batch_exports",
        numbers(most),
        NOW.0,
    );
    // The oldest one of both exports has a run.
    let run = format!(
        "INSERT INTO batch_export_runs (id, batch_export_id, ordinal, backfill_id, status, \
         data_interval_end, created_at, last_updated_at) SELECT {uuid}, batch_export_id, 1, id, \
         'Completed', 1, 1, 1 FROM batch_export_backfills WHERE created_at = {}",
        NOW.0 + 1,
    );
    for insert in [empty, run] {
        database.execute(&insert).await.unwrap();
    }
    let count = async |export_id: Uuid| {
        let catalog = &env.fixture.catalog;
        let listed = Backfills::new(catalog).list(env.place(), export_id, ALL);
        listed.await.unwrap().unwrap().count
    };
    env.fixture.pass_micros(HOUR / 2);
    let of_no_window = BackfillRange {
        start_at: Some(UtcTime(NOW.0 + 1)),
        end_at: None,
    };
    // The first one makes a thousand, and the second one takes the place of another.
    for _ in 0..2 {
        started(&env, export_id, of_no_window).await;
        assert_eq!(count(export_id).await, u64::from(most) + 2);
    }
    assert_eq!(count(other).await, u64::from(most));
    let oldest = format!(
        "SELECT CAST(created_at - {0} AS TEXT) FROM batch_export_backfills \
         WHERE created_at BETWEEN {0} + 1 AND {0} + 3 ORDER BY created_at",
        NOW.0
    );
    let oldest = database.first_column(&oldest).await.unwrap();
    assert_eq!(oldest, ["1", "1", "2", "3", "3"]);
}
