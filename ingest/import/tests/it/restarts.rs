//! Restarts of imports, also beside running ones.

use crate::server::{CannedResponse, serve};
use millrace_import::chunk::ChunkLimits;
use millrace_import::files::find;
use millrace_import::journal::{Journal, Lock};
use millrace_import::load::{Load, Outcome, run};
use millrace_import::plan::Plan;
use millrace_import::staging::{LoadFolder, Staging};
use millrace_import::stats::StageStats;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// A valid record, and one that the mapping refuses.
const RECORDS: &str = "{\"event\":\"a\",\"distinct_id\":\"b\",\"timestamp\":\"2024-01-01\"}\n\
                       {\"event\":\"a\",\"distinct_id\":\"b\"}\n";

fn folder(dir: &TempDir) -> LoadFolder {
    let staging = Staging::open(&dir.path().join("staging")).unwrap();
    staging.load("phc_x")
}

fn load(dir: &TempDir, url: &str, is_restart: bool) -> anyhow::Result<Outcome> {
    let path = dir.path().join("events.ndjson");
    std::fs::write(&path, RECORDS).unwrap();
    let load = Load {
        url: url.to_owned(),
        project_key: "phc_x".to_owned(),
        plan: Plan::default(),
        files: find(&[path.to_string_lossy().into_owned()]).unwrap(),
        rejects: None,
        staging: Staging::open(&dir.path().join("staging")).unwrap(),
        is_restart,
        files_parallel: 1,
        requests_parallel: 1,
        compression: None,
        give_up_after: Duration::ZERO,
        limits: ChunkLimits::default(),
    };
    run(&load, &Arc::new(StageStats::default()))
}

fn ok() -> CannedResponse {
    (200, None, json!({ "status": "Ok" }))
}

fn payment_required() -> CannedResponse {
    let body = json!({ "code": "payment_required", "detail": "No." });
    (403, None, body)
}

fn contents(dir: &TempDir) -> Vec<Vec<u8>> {
    let folder = folder(dir);
    let paths = [folder.journal(), folder.rejects()];
    paths.map(|path| std::fs::read(path).unwrap()).into()
}

#[test]
fn a_restart_discards_the_progress_and_imports_everything_again() {
    let dir = TempDir::new().unwrap();
    let requests = Arc::new(Mutex::new(0));
    let count = Arc::clone(&requests);
    let url = serve(move |_| {
        *count.lock().unwrap() += 1;
        ok()
    });
    for (is_restart, requests_until) in [(false, 1), (false, 1), (true, 2)] {
        let outcome = load(&dir, &url, is_restart).unwrap();
        assert_eq!(outcome.progress.sum.records, 2);
        assert_eq!(*requests.lock().unwrap(), requests_until);
        let rejects = std::fs::read_to_string(folder(&dir).rejects()).unwrap();
        assert_eq!(rejects.lines().count(), 1, "{rejects}");
    }
}

#[test]
fn a_restart_beside_a_running_import_is_refused_and_changes_nothing() {
    let dir = TempDir::new().unwrap();
    let url = serve(|_| ok());
    load(&dir, &url, false).unwrap();
    let before = contents(&dir);
    let other = Lock::take(&folder(&dir).journal()).unwrap();
    let error = load(&dir, &url, true).unwrap_err();
    assert!(
        format!("{error:#}").contains("another import is writing"),
        "{error:#}"
    );
    assert_eq!(contents(&dir), before);
    drop(other);
    // An import that cannot start changes nothing either.
    load(&dir, "no url", true).unwrap_err();
    assert_eq!(contents(&dir), before);
}

#[test]
fn an_import_without_any_progress_leaves_no_journal_and_the_next_one_starts() {
    let dir = TempDir::new().unwrap();
    let url = serve(|_| payment_required());
    let outcome = load(&dir, &url, false).unwrap();
    assert_eq!(outcome.stop.unwrap().code, "payment_required");
    assert!(!folder(&dir).journal().exists());
    let url = serve(|_| ok());
    load(&dir, &url, false).unwrap();
    let progress = Journal::read(&folder(&dir).journal()).unwrap();
    assert_eq!(progress.sum.accepted.total(), 1);
}

#[test]
fn rejects_without_a_journal_are_kept_until_a_restart() {
    let dir = TempDir::new().unwrap();
    let url = serve(|_| ok());
    load(&dir, &url, false).unwrap();
    std::fs::remove_file(folder(&dir).journal()).unwrap();
    for _ in 0..2 {
        let error = load(&dir, &url, false).unwrap_err().to_string();
        assert!(error.contains("whose journal is gone"), "{error}");
    }
    load(&dir, &url, true).unwrap();
}
