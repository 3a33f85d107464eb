//! Runs of batch exports by the real binary: from rows in ClickHouse to files, by the leader.

use crate::admin_failover::{Admins, LeaderTask, SharedCatalog};
use crate::server::{Server, ask, eventually};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const ALL: &str = "/api/organizations/@current/batch_exports/";
/// Number of windows with rows.
const WINDOWS: u64 = 30;
/// Rows of each window.
const ROWS: u64 = 2_000;
/// Key of processes that share a catalog.
const SECRET_KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// Limits of requests that no test of runs meets.
pub const UNTHROTTLED: [&str; 4] = [
    "--admin-requests-per-minute-max",
    "0",
    "--admin-requests-per-hour-max",
    "0",
];

/// Stores rows as if they had arrived in the last hours.
pub fn store_past(server: &Server) {
    server.wait_for("EXISTS TABLE millrace.events", "1");
    server.query(&insert_of_past(server));
}

/// Statement that stores rows as if they had arrived in the last hours.
pub fn insert_of_past(server: &Server) -> String {
    let project_id = server.credential("team_id");
    format!(
        "INSERT INTO millrace.events SELECT generateUUIDv4(number) AS uuid, 'past' AS event, \
         '{{\"n\":' || toString(number) || '}}' AS properties, \
         now64(6) - 86400 + intDiv(number, {ROWS}) * 300 AS timestamp, {project_id} AS team_id, \
         toString(number % 97) AS distinct_id, timestamp AS created_at, \
         false AS historical_migration FROM numbers({})",
        WINDOWS * ROWS
    )
}

/// Creates an export to files in `out`, and returns its id.
pub fn export_to_files(server: &Server) -> String {
    let config = json!({"path": "out", "compression": "gzip"});
    let new = json!({
        "name": "Often", "interval": "every 5 minutes",
        "destination": {"type": "FileSystem", "config": config},
    });
    let (status, made) = ask(server, "POST", ALL, &new);
    assert_eq!(status, 201, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

fn runs(server: &Server, id: &str) -> Vec<Value> {
    let path = format!("{ALL}{id}/runs/?limit=1000");
    let (status, answer) = ask(server, "GET", &path, &Value::Null);
    assert_eq!(status, 200, "{answer}");
    answer["results"].as_array().unwrap().clone()
}

/// Asks for all rows of the past, and waits for them; returns the runs.
pub fn backfilled(server: &Server, id: &str) -> Vec<Value> {
    let backfill = format!("{ALL}{id}/backfill/");
    let (status, asked) = ask(server, "POST", &backfill, &json!({}));
    assert_eq!(status, 200, "{asked}");
    eventually("the end of the backfill", || {
        let path = format!("{ALL}{id}/backfills/");
        let (_, answer) = ask(server, "GET", &path, &Value::Null);
        let done = answer["results"][0]["status"] == "Completed";
        done.then(|| runs(server, id))
    })
}

fn has_rows(run: &Value) -> bool {
    run["records_completed"].as_u64() > Some(0)
}

/// Number of rows that completed runs have delivered.
fn rows(runs: &[Value]) -> u64 {
    let done = runs.iter().filter(|run| run["status"] == "Completed");
    done.map(|run| run["records_completed"].as_u64().unwrap())
        .sum()
}

fn completed(runs: &[Value]) -> usize {
    runs.iter()
        .filter(|run| run["status"] == "Completed")
        .count()
}

/// Folder of the only organization that exports to files.
pub fn organization_folder(root: &Path) -> PathBuf {
    let mut folders = std::fs::read_dir(root).unwrap();
    let folder = folders.next().unwrap().unwrap().path();
    assert!(folders.next().is_none());
    folder
}

/// Numbers of the rows in all files, with their counts.
pub fn exported(folder: &Path) -> BTreeMap<u64, usize> {
    let mut numbers = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "gz") {
            continue;
        }
        let file = std::fs::File::open(&path).unwrap();
        let lines = std::io::read_to_string(flate2::read::MultiGzDecoder::new(file)).unwrap();
        for line in lines.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let number = row["properties"]["n"].as_u64().unwrap();
            *numbers.entry(number).or_default() += 1;
        }
    }
    numbers
}

/// Numbers of the stored rows, each of them once.
pub fn each_once() -> BTreeMap<u64, usize> {
    (0..WINDOWS * ROWS).map(|number| (number, 1)).collect()
}

#[test]
fn past_events_are_exported_to_a_folder() {
    let (dir, root) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let root_arg = root.path().to_str().unwrap();
    let args = [&["--export-root", root_arg][..], &UNTHROTTLED].concat();
    let server = Server::start_with(dir.path(), &args);
    store_past(&server);
    let id = export_to_files(&server);
    let test = json!({"batch_export": id});
    let (status, tested) = ask(&server, "POST", &format!("{ALL}test/"), &test);
    assert_eq!(status, 200, "{tested}");
    for step in tested["steps"].as_array().unwrap() {
        assert_eq!(step["result"]["status"], "Passed", "{step}");
    }
    // A window may end meanwhile, which has no rows.
    let done: Vec<_> = backfilled(&server, &id)
        .into_iter()
        .filter(has_rows)
        .collect();
    assert_eq!(completed(&done), WINDOWS as usize, "{done:?}");
    assert_eq!(rows(&done), WINDOWS * ROWS);
    assert_eq!(
        exported(&organization_folder(root.path()).join("out")),
        each_once()
    );
    assert_run_metrics(&server);
    let (_, logs) = ask(&server, "GET", &format!("{ALL}{id}/logs/"), &Value::Null);
    let lines = logs["results"].to_string();
    assert!(lines.contains("Delivered 2,000 rows ("), "{lines}");
}

/// Asserts the metrics of the runs.
fn assert_run_metrics(server: &Server) {
    let metric = |name: &str| server.metric(name).unwrap();
    // A run is counted after it is recorded, so it may be visible before.
    eventually("the count of runs", || {
        let completed = metric(r#"millrace_export_runs_total{status="Completed"}"#);
        (completed >= WINDOWS as f64).then_some(())
    });
    assert!(metric("millrace_export_rows_total") >= (WINDOWS * ROWS) as f64);
    assert!(metric("millrace_export_bytes_total") > 0.0);
    assert!(metric("millrace_export_leader") > 0.0);
    // Far below the alert's threshold: nothing waits but a window that may have ended just now.
    assert!(metric("millrace_export_lag_seconds") < 3_600.0);
}

/// Seconds from this time to the end of the first run of the next leader.
fn first_end(catalog: &SharedCatalog, died_at: i64) -> Option<f64> {
    let ends = catalog.ask(&format!(
        "SELECT coalesce(min(finished_at), 0)::text FROM batch_export_runs \
         WHERE finished_at > {died_at}"
    ));
    let end: i64 = ends[0].parse().unwrap();
    (end > 0).then(|| (end - died_at) as f64 / 1e6)
}

#[test]
fn another_process_takes_over_when_the_leader_is_killed() {
    let catalog = SharedCatalog::new();
    let root = TempDir::new().unwrap();
    let shared = [
        "--database-url",
        catalog.url(),
        "--secret-key",
        SECRET_KEY,
        "--export-root",
        root.path().to_str().unwrap(),
    ];
    let home = TempDir::new().unwrap();
    let own = [
        "--export-runs-max",
        "0",
        "--admin-requests-per-minute-max",
        "0",
    ];
    let args = [&shared[..], &own, &["--admin-requests-per-hour-max", "0"]].concat();
    let server = Server::start_with(home.path(), &args);
    store_past(&server);
    let id = export_to_files(&server);
    let (status, asked) = ask(&server, "POST", &format!("{ALL}{id}/backfill/"), &json!({}));
    assert_eq!(status, 200, "{asked}");
    let clickhouse = server.clickhouse_args();
    let clickhouse = clickhouse.iter().map(String::as_str);
    let args: Vec<&str> = shared.into_iter().chain(clickhouse).collect();
    let mut admins = Admins::start(&catalog, 3, &args);
    admins.wait_for_metric("millrace_export_lag_seconds");
    while admins.count() > 1 {
        let so_far = completed(&runs(&server, &id));
        eventually("more runs", || {
            (completed(&runs(&server, &id)) > so_far + 2).then_some(())
        });
        let takeover = admins.kill_leader(LeaderTask::Exports);
        let first = eventually("a run of the next leader", || {
            first_end(&catalog, takeover.died_at)
        });
        println!(
            "another leads {:.2} s after the death, and has done a run {first:.2} s after it",
            takeover.led_after.as_secs_f64()
        );
    }
    let done = eventually("the end of all runs", || {
        let runs = runs(&server, &id);
        (rows(&runs) == WINDOWS * ROWS).then_some(runs)
    });
    let mut ends: Vec<&str> = done
        .iter()
        .map(|run| run["data_interval_end"].as_str().unwrap())
        .collect();
    ends.sort_unstable();
    ends.dedup();
    assert_eq!(ends.len(), done.len(), "a window is one run");
    assert_eq!(
        exported(&organization_folder(root.path()).join("out")),
        each_once()
    );
}
