//! Backfills that end without runs, and their reasons.

use crate::batch_exports::{HOUR, TestEnv};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{RunStatus, UtcTime};
use millrace_exports::{BackfillRange, Backfills, ExportLogFilter, ExportLogs};
use millrace_organizations::testing::fixture::{ALL, NOW};
use uuid::Uuid;

on_both!(
    a_backfill_that_cannot_be_planned_is_given_up_once,
    a_backfill_without_runs_completes_at_once_with_a_reason,
    a_range_without_an_ended_window_completes_at_once_with_a_reason,
);

async fn a_backfill_that_cannot_be_planned_is_given_up_once(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, place) = (&env.fixture.catalog, env.place());
    let export_id = env.made().await.id;
    let id = env.backfill(export_id).await;
    assert!(Backfills::new(catalog).fail(id, "Why.").await.unwrap());
    let seen = Backfills::new(catalog).get(place, export_id, id).await;
    let seen = seen.unwrap().unwrap();
    assert_eq!(
        (seen.status, seen.message.as_deref()),
        (RunStatus::Failed, Some("Why."))
    );
    assert!(seen.finished_at.is_some());
    assert!(!Backfills::new(catalog).fail(id, "Why.").await.unwrap());
    assert!(!Backfills::new(catalog).plan(id, 1).await.unwrap());
    let nobody = Backfills::new(catalog).fail(Uuid::now_v7(), "Why.").await;
    assert!(!nobody.unwrap());
}

/// The newest line of an export.
async fn last_line(env: &TestEnv, export_id: Uuid) -> String {
    let (catalog, filter) = (&env.fixture.catalog, ExportLogFilter::default());
    let lines = ExportLogs::new(catalog).list(env.place(), export_id, &filter, ALL);
    lines.await.unwrap().unwrap().rows[0].message.clone()
}

async fn a_range_without_an_ended_window_completes_at_once_with_a_reason(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    // In the middle of a window.
    env.fixture.pass_micros(HOUR / 2);
    let (window, now) = (NOW.0, NOW.0 + HOUR / 2);
    let table = [
        (Some(window), None, true),
        (Some(window), Some(window + HOUR), true),
        (Some(now + 1), Some(now + HOUR), true),
        (Some(window - 1), None, false),
        (None, None, false),
    ];
    for (start, end, is_empty) in table {
        let export_id = env.made().await.id;
        let range = BackfillRange {
            start_at: start.map(UtcTime),
            end_at: end.map(UtcTime),
        };
        let asked = Backfills::new(catalog).start(actor, place, export_id, range);
        let backfill = asked.await.unwrap();
        assert_eq!(backfill.message.is_some(), is_empty, "{range:?}");
        let Some(message) = backfill.message else {
            continue;
        };
        assert_eq!(
            (backfill.status, backfill.total_runs, backfill.finished_at),
            (RunStatus::Completed, Some(0), Some(backfill.created_at))
        );
        let next_end = UtcTime(window + HOUR).to_string();
        assert!(message.contains(&next_end), "{message}");
        let line = last_line(&env, export_id).await;
        assert!(line.contains(&message), "{line}");
        let open = env.backfills_to_plan().await;
        assert!(open.iter().all(|open| open.backfill.id != backfill.id));
    }
}

async fn a_backfill_without_runs_completes_at_once_with_a_reason(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, place) = (&env.fixture.catalog, env.place());
    let export_id = env.made().await.id;
    let empty = env.backfill(export_id).await;
    let why = "Nothing lies there.";
    let ended = Backfills::new(catalog).end_empty(empty, why).await;
    assert!(ended.unwrap());
    let twice = Backfills::new(catalog).end_empty(empty, "Again.").await;
    assert!(!twice.unwrap(), "it has ended");
    let empty = Backfills::new(catalog)
        .get(place, export_id, empty)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (empty.status, empty.total_runs, empty.message.as_deref()),
        (RunStatus::Completed, Some(0), Some(why))
    );
    let line = last_line(&env, export_id).await;
    assert!(line.ends_with(why), "{line}");
}
