//! An organization with as many exports as it may have, which run in turn.
//!
//! It is one of the hostile owner's further organizations: runs of the first one hang, or take
//! minutes. Its exports stay from round to round, and are paused: each run is a backfill of a day.

use super::context::AttackContext;
use crate::attack::tenants::{Tenant, text};
use crate::attack::yesterday::Yesterday;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Backfills that are open at a time: few, as they go on for a while after an attack.
const OPEN_MAX: usize = 8;
/// Pause before the list of exports is read again.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Columns of an export's query: with more, not all exports would fit onto a page.
const COLUMNS: usize = 20;

/// Creates the exports and has them run, until the task is dropped.
pub(super) async fn all(context: Arc<AttackContext>) {
    let Some(tenant) = context.tenants.further.last() else {
        return;
    };
    let yesterday = Yesterday::new();
    store_events(&context, tenant, &yesterday).await;
    let mut ids = list(&context, tenant).await.ids;
    let (mut turn, mut open) = (0, 0_usize);
    loop {
        if ids.len() < context.full_exports {
            let made = create(&context, tenant, ids.len()).await;
            ids.extend(made);
        }
        if let Some(id) = ids.get(turn % ids.len().max(1)) {
            open += usize::from(backfill(&context, tenant, id, &yesterday).await);
            turn += 1;
        }
        while open >= OPEN_MAX {
            sleep(LOOK_AGAIN).await;
            open = open.saturating_sub(list(&context, tenant).await.ended);
        }
        sleep(context.pause).await;
    }
}

/// Puts events of the day into ClickHouse, unless they are there.
async fn store_events(context: &AttackContext, tenant: &Tenant, yesterday: &Yesterday) {
    let project_id = tenant.project_id;
    let count = format!(
        "SELECT count() FROM millrace.events WHERE team_id = {project_id} AND event = 'past'"
    );
    loop {
        // An engine that others keep busy is asked again.
        match context.clickhouse.number(&count).await {
            Ok(1..) => return,
            Ok(0) => {
                let statement = yesterday.insert(project_id);
                drop(context.clickhouse.execute(&statement).await);
            }
            Err(_) => {}
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Page of all exports.
struct Listed {
    ids: Vec<String>,
    /// Number of runs on it that have ended since the last page.
    ended: usize,
}

async fn list(context: &AttackContext, tenant: &Tenant) -> Listed {
    let listed = tenant.ask("GET", "batch_exports/?limit=200", &Value::Null);
    let page = listed.await.json();
    let results = page.pointer("/results").and_then(Value::as_array);
    let runs = &context.findings.export_runs;
    let ended = runs.record(&page, context.is_extra());
    for status in &ended {
        context
            .findings
            .count("runs of a full organization", status);
    }
    Listed {
        ids: results
            .into_iter()
            .flatten()
            .filter_map(|it| text(it, "/id"))
            .collect(),
        ended: ended.len(),
    }
}

/// Creates an export; returns its id.
async fn create(context: &AttackContext, tenant: &Tenant, number: usize) -> Option<String> {
    let new = new_export(number);
    let made = tenant.ask("POST", "batch_exports/", &new).await;
    context
        .findings
        .note("exports of a full organization", &made);
    text(&made.json(), "/id")
}

fn new_export(number: usize) -> Value {
    let columns = (0..COLUMNS).map(|column| format!("event AS c{column}"));
    let columns: Vec<String> = columns.collect();
    let destination = match number % 2 {
        0 => json!({"type": "FileSystem", "config": {"path": format!("full/{number}")}}),
        _ => json!({"type": "NoOp", "config": {}}),
    };
    json!({"name": format!("Full {number}"), "interval": "day", "paused": true,
        "destination": destination,
        "hogql_query": format!("SELECT properties, {} FROM events", columns.join(", "))})
}

/// Starts a backfill; returns true if it was taken.
async fn backfill(
    context: &AttackContext,
    tenant: &Tenant,
    id: &str,
    yesterday: &Yesterday,
) -> bool {
    let path = format!("batch_exports/{id}/backfills/");
    let range = json!({"start_at": yesterday.start, "end_at": yesterday.end});
    let made = tenant.ask("POST", &path, &range).await;
    context
        .findings
        .note("backfills of a full organization", &made);
    made.status() == 201
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_paused_and_go_to_files_and_to_nowhere() {
        let kinds: Vec<String> = (0..4)
            .map(|number| {
                let export = new_export(number);
                assert_eq!(export["paused"], true);
                export["destination"]["type"].to_string()
            })
            .collect();
        let expected = ["\"FileSystem\"", "\"NoOp\"", "\"FileSystem\"", "\"NoOp\""];
        assert_eq!(kinds, expected);
        assert_ne!(new_export(0)["destination"], new_export(2)["destination"]);
    }
}
