//! Backfills that are planned by two processes at a time, as when another one takes the lead: each
//! reads first and writes later.

use super::claims::{LONG, claim, record};
use super::{HOUR, TestEnv};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{BatchExportBackfill, RunStatus, UtcTime};
use millrace_exports::{Backfills, ExportRuns};
use uuid::Uuid;

on_both!(
    the_first_planner_sets_the_number_of_runs,
    a_window_has_one_run_of_concurrent_planners,
    a_backfill_whose_rows_were_deleted_ends_with_the_runs_it_has,
);

/// Creates an export with a backfill; answers the ids of both.
async fn asked(env: &TestEnv) -> (Uuid, Uuid) {
    let export_id = env.made().await.id;
    (export_id, env.backfill(export_id).await)
}

async fn read(env: &TestEnv, export_id: Uuid, id: Uuid) -> BatchExportBackfill {
    let catalog = &env.fixture.catalog;
    let found = Backfills::new(catalog)
        .get(env.place(), export_id, id)
        .await;
    found.unwrap().unwrap()
}

fn window(number: i64) -> (UtcTime, UtcTime) {
    (UtcTime(number * HOUR), UtcTime((number + 1) * HOUR))
}

async fn the_first_planner_sets_the_number_of_runs(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let (export_id, id) = asked(&env).await;
    assert!(Backfills::new(catalog).plan(id, 30).await.unwrap());
    let counted = read(&env, export_id, id).await;
    assert_eq!(
        (counted.status, counted.total_runs),
        (RunStatus::Running, Some(30))
    );
    // The second one has counted what is left behind the first one's runs.
    for number in 0..10 {
        let begun = ExportRuns::new(catalog)
            .begin_of_backfill(id, window(number))
            .await;
        assert!(begun.unwrap().is_some());
    }
    assert!(!Backfills::new(catalog).plan(id, 20).await.unwrap());
    let nothing = Backfills::new(catalog).end_empty(id, "Nothing is left.");
    assert!(!nothing.await.unwrap());
    assert_eq!(read(&env, export_id, id).await, counted);
}

async fn a_window_has_one_run_of_concurrent_planners(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (_, id) = asked(&env).await;
    for number in 0..5 {
        let planners = (0..4).map(|_| {
            let catalog = env.fixture.catalog.clone();
            tokio::spawn(async move {
                ExportRuns::new(&catalog)
                    .begin_of_backfill(id, window(number))
                    .await
            })
        });
        let planners: Vec<_> = planners.collect();
        let mut begun = 0;
        for planner in planners {
            begun += usize::from(planner.await.unwrap().unwrap().is_some());
        }
        assert_eq!(begun, 1, "window {number}");
    }
}

async fn a_backfill_whose_rows_were_deleted_ends_with_the_runs_it_has(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let why = "The rows are gone.";
    let end_early = async |id: Uuid| Backfills::new(catalog).end_early(id, why).await.unwrap();
    // Runs that have ended and runs that are open, of five that were counted.
    for (ended, open) in [(0, 0), (2, 0), (1, 1), (0, 2)] {
        let (export_id, id) = asked(&env).await;
        assert!(Backfills::new(catalog).plan(id, 5).await.unwrap());
        for number in 0..ended + open {
            let begun = ExportRuns::new(catalog)
                .begin_of_backfill(id, window(number))
                .await;
            assert!(begun.unwrap().is_some());
        }
        for _ in 0..ended {
            let claimed = claim(&env, LONG).await.unwrap();
            record(&env, &claimed, RunStatus::Completed).await;
        }
        assert!(end_early(id).await);
        let backfill = read(&env, export_id, id).await;
        assert_eq!(backfill.total_runs, Some(ended + open));
        assert_eq!(backfill.status.is_open(), open > 0, "{backfill:?}");
        let expected = (ended + open == 0).then_some(why);
        assert_eq!(backfill.message.as_deref(), expected);
        for _ in 0..open {
            let claimed = claim(&env, LONG).await.unwrap();
            record(&env, &claimed, RunStatus::Completed).await;
        }
        let backfill = read(&env, export_id, id).await;
        assert_eq!(backfill.status, RunStatus::Completed, "{backfill:?}");
        assert!(!end_early(id).await, "it has ended");
    }
}
