//! Runs of an organization with many exports, all due at once, of long queries and large events;
//! in `make torture-exports` it has as many as it may have (`MILLRACE_EXPORTS`). Its lists and
//! pages are measured in `bounds::pages` of the API's tests. A run may take as long as a try may:
//! this is no test of speed.

use super::test_env::{TestEnv, WINDOW, new_export};
use millrace_catalog::testing::{TestDatabase, on_both};
use millrace_catalog::{BatchExportRun, CatalogLimits, DestinationType, ProjectId, RunStatus};
use millrace_exports::ExportPlace;
use millrace_rows::testing::number_from_env;
use serde_json::json;
use std::time::Duration;
use uuid::Uuid;

on_both!(all_runs_of_a_full_organization_end_and_those_of_another_too);

/// Exports of the organization: more than run at a time, of all and of one organization.
const EXPORTS: i64 = 40;
/// Small events of the window.
const EVENTS: u64 = 20;
/// Events of half a megabyte.
const LARGE_EVENTS: u32 = 4;
/// Longest time that all runs may take together.
const TEST_TIMEOUT: Duration = Duration::from_secs(600);

async fn all_runs_of_a_full_organization_end_and_those_of_another_too(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let full = env.organization("Full").await;
    let columns: Vec<String> = (0..300).map(|it| format!("event AS c{it}")).collect();
    let mut new = new_export(DestinationType::NoOp, &json!({}));
    new.hogql_query = Some(format!(
        "SELECT properties, {} FROM events",
        columns.join(", ")
    ));
    let mut exports = Vec::new();
    let count = number_from_env("MILLRACE_EXPORTS", EXPORTS);
    assert!(count <= i64::try_from(CatalogLimits::default().batch_exports_max).unwrap());
    for _ in 0..count {
        exports.push(env.make_at(full, new.clone()).await);
    }
    let project_id = ProjectId(exports[0].team_id);
    let events: Vec<_> = (1..=EVENTS).map(|number| (number, 0, 0)).collect();
    env.store(project_id, &events).await;
    env.store_large(project_id, LARGE_EVENTS);
    let good = env.export(json!({})).await;
    env.store(env.project_id, &[(1, 0, 0)]).await;
    env.pass(WINDOW).await;
    let _process = env.start();
    let runs = env.until_ended(good.id, 1).await;
    assert_eq!(runs[0].status, RunStatus::Completed);
    assert_eq!(env.exported(), [1]);
    let rows = EVENTS as i64 + i64::from(LARGE_EVENTS);
    let ended = async {
        for export in &exports {
            let run = ended(&env, full, export.id).await;
            let error = run.latest_error.as_deref();
            assert_eq!((run.status, error), (RunStatus::Completed, None));
            let counts = [run.records_completed, run.records_total_count];
            assert_eq!(counts, [Some(rows); 2]);
        }
    };
    let ended = tokio::time::timeout(TEST_TIMEOUT, ended).await;
    ended.expect("the runs do not end");
}

/// Waits for the first run of an export.
async fn ended(env: &TestEnv, place: ExportPlace, export_id: Uuid) -> BatchExportRun {
    loop {
        let runs = env.runs_at(place, export_id).await;
        if let Some(run) = runs.into_iter().find(|run| !run.status.is_open()) {
            return run;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
