//! Repeated exports of yesterday's events: their duration, and whether the file is complete.

use super::tenant::{GoodTenant, LOOK_AGAIN, LOST_AFTER};
use crate::attack::hostile::EXPORT_FOLDER;
use crate::attack::tenants::text;
use crate::attack::yesterday::{EVENTS, Yesterday};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Pause between two exports.
const PAUSE: Duration = Duration::from_secs(2);

/// Runs exports one after the other until the run is over.
pub(super) async fn export_all(good: &GoodTenant<'_>) -> Result<()> {
    let yesterday = Yesterday::new();
    let (clickhouse, tenant) = (good.subject.clickhouse(), &good.tenants.good);
    let events = yesterday.insert(tenant.project_id);
    let stored = clickhouse.execute(&events).await;
    stored.context("yesterday's events")?;
    let new = json!({"name": "Yesterday", "interval": "day",
        "destination": {"type": "FileSystem", "config": {"path": EXPORT_FOLDER}}});
    let made = tenant.ask("POST", "batch_exports/", &new).await;
    let id = text(&made.json(), "/id").with_context(|| format!("no export: {made:?}"))?;
    let folder = good.subject.export_root().join(&tenant.organization);
    let folder = folder.join(EXPORT_FOLDER);
    while !good.current_phase.is_over() {
        let began = good.began();
        if is_exported(good, &id, &yesterday).await {
            good.ended(&good.exports, began);
            check(good, &folder)?;
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Starts a backfill and waits for its end.
async fn is_exported(good: &GoodTenant<'_>, id: &str, yesterday: &Yesterday) -> bool {
    let tenant = &good.tenants.good;
    let all = format!("batch_exports/{id}/backfills/");
    let range = json!({"start_at": yesterday.start, "end_at": yesterday.end});
    let asked = tenant.ask("POST", &all, &range).await;
    if !good.right(&good.exports, "backfills", &asked, 201) {
        return false;
    }
    let backfill = text(&asked.json(), "/id").unwrap_or_default();
    let one = format!("{all}{backfill}/");
    let deadline = Instant::now() + LOST_AFTER;
    let mut last = String::new();
    while Instant::now() < deadline {
        let seen = tenant.ask("GET", &one, &Value::Null).await;
        if good.right(&good.exports, "backfills that are under way", &seen, 200) {
            last = text(&seen.json(), "/status").unwrap_or_default();
            match last.as_str() {
                "Completed" => return true,
                "Starting" | "Running" => {}
                _ => break,
            }
        }
        sleep(LOOK_AGAIN * 3).await;
    }
    good.findings
        .wrong(format!("good tenant: a backfill is {last} in the end"));
    false
}

/// Checks that the files have each event exactly once, whatever other files lie beside them.
fn check(good: &GoodTenant<'_>, folder: &Path) -> Result<()> {
    let mut numbers = Vec::new();
    for path in files(folder)? {
        let lines = std::fs::read_to_string(&path).context("an exported file")?;
        for line in lines.lines() {
            let row: Value = serde_json::from_str(line).context("an exported row")?;
            numbers.push(row.pointer("/properties/number").and_then(Value::as_u64));
        }
    }
    numbers.sort_unstable();
    let expected: Vec<_> = (0..EVENTS as u64).map(Some).collect();
    if numbers != expected {
        let rows = numbers.len();
        good.findings.wrong(format!(
            "good tenant: an export of {EVENTS} events has {rows} other rows"
        ));
    }
    Ok(())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).context("no files of an export")? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            files.push(path);
        }
    }
    Ok(files)
}
