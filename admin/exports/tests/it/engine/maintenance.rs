//! Tests of backfills while a gateway in front of ClickHouse is under maintenance.

use super::gateway::{Gateway, Page};
use super::test_env::{TestEnv, WINDOW};
use millrace_catalog::RunStatus;
use millrace_catalog::testing::{TestDatabase, on_both};
use millrace_exports::Backfills;
use serde_json::json;

on_both!(a_backfill_behind_a_maintenance_page_waits_and_has_all_rows_afterwards);

/// Pages that a gateway answers with instead of ClickHouse.
const PAGES: [Page; 4] = [
    Page {
        status: "200 OK",
        body: "<html>We are back soon</html>",
    },
    Page {
        status: "200 OK",
        body: "",
    },
    Page {
        status: "502 Bad Gateway",
        body: "<html>Bad Gateway</html>",
    },
    Page {
        status: "503 Service Unavailable",
        body: "",
    },
];

async fn a_backfill_behind_a_maintenance_page_waits_and_has_all_rows_afterwards(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let events = [(1, -WINDOW, -WINDOW), (2, -2 * WINDOW, -2 * WINDOW)];
    env.store(env.project_id, &events).await;
    env.pass(0).await;
    let mut backfills = Vec::new();
    for (path, is_counted) in [("new", false), ("counted", true)] {
        let export = env.export(json!({ "path": path })).await;
        let id = env.backfill(export.id, None, None).await;
        if is_counted {
            // As another process did, which does not lead any more.
            assert!(Backfills::new(&env.catalog).plan(id, 2).await.unwrap());
        }
        backfills.push((export.id, id));
    }
    let mut gateway = Gateway::start(&env.settings.url, PAGES[0]).await;
    let _process = env.start_through(&gateway.url);
    for page in PAGES {
        gateway.answer_with(Some(page));
        // One of them is searched again only after the other one.
        gateway.until_answered(4).await;
        for (export_id, id) in &backfills {
            let backfill = env.backfill_of(*export_id, *id).await;
            assert!(backfill.status.is_open(), "{page:?}: {backfill:?}");
            assert_eq!(backfill.message, None, "{page:?}");
            assert!(env.runs(*export_id).await.is_empty(), "{page:?}");
        }
    }
    gateway.answer_with(None);
    for (export_id, id) in &backfills {
        let ended = env.backfill_ended(*export_id, *id).await;
        let backfill = env.backfill_of(*export_id, *id).await;
        let counts = (backfill.total_runs, backfill.finished_runs);
        assert_eq!((ended, counts), (RunStatus::Completed, (Some(2), 2)));
    }
    assert_eq!(env.exported(), [1, 1, 2, 2]);
}
