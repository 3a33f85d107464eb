//! Imports against a server with responses of every kind.

use crate::server::{CannedResponse, ReceivedRequest, serve};
use millrace_import::chunk::ChunkLimits;
use millrace_import::files::find;
use millrace_import::load::{Load, Outcome, run};
use millrace_import::plan::Plan;
use millrace_import::rejected_records::Reject;
use millrace_import::staging::Staging;
use millrace_import::stats::StageStats;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

const EVENTS: u64 = 1_000;

/// Number of times that each event was stored, by its uuid.
type Stored = Arc<Mutex<BTreeMap<String, u32>>>;

fn events(dir: &TempDir) -> String {
    let line = |number: u64| {
        let month = number % 3 + 1;
        json!({
            "event": "a", "distinct_id": "b", "timestamp": format!("2024-{month:02}-01T00:00:00Z"),
            "properties": { "number": number },
        })
    };
    let text: String = (0..EVENTS)
        .map(|number| format!("{}\n", line(number)))
        .collect();
    let path = dir.path().join("events.ndjson");
    std::fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

fn load(dir: &TempDir, url: &str, give_up_after: Duration) -> Outcome {
    load_with(dir, url, give_up_after, &Arc::new(StageStats::default()))
}

fn load_with(
    dir: &TempDir,
    url: &str,
    give_up_after: Duration,
    stats: &Arc<StageStats>,
) -> Outcome {
    let load = Load {
        url: url.to_owned(),
        project_key: "phc_x".to_owned(),
        plan: Plan::default(),
        files: find(&[events(dir)]).unwrap(),
        rejects: None,
        staging: Staging::open(&dir.path().join("staging")).unwrap(),
        is_restart: false,
        files_parallel: 1,
        requests_parallel: 3,
        compression: None,
        give_up_after,
        limits: ChunkLimits {
            chunk_bytes: 20_000,
            request_events: 40,
            ..ChunkLimits::default()
        },
    };
    run(&load, stats).unwrap()
}

/// Outcome of an import into a server that accepts everything in the end.
fn loaded(dir: &TempDir, url: &str) -> Outcome {
    let outcome = load(dir, url, Duration::from_secs(60));
    assert_eq!(outcome.stop, None);
    outcome
}

fn ok() -> CannedResponse {
    (200, None, json!({ "status": "Ok" }))
}

fn error(status: u16, code: &str, retry_after: Option<u32>) -> CannedResponse {
    let body = json!({ "code": code, "detail": "It is so." });
    (status, retry_after, body)
}

fn store(stored: &Stored, event: &Value) {
    let uuid = event["uuid"].as_str().unwrap().to_owned();
    *stored.lock().unwrap().entry(uuid).or_default() += 1;
}

fn store_all(stored: &Stored, request: &ReceivedRequest) -> CannedResponse {
    request
        .events()
        .iter()
        .for_each(|event| store(stored, event));
    ok()
}

fn assert_all_stored_once(stored: &Stored) {
    let stored = stored.lock().unwrap();
    assert_eq!(stored.len() as u64, EVENTS);
    assert!(stored.values().all(|times| *times == 1));
}

#[test]
fn a_load_that_has_to_wait_tells_why_and_until_when() {
    let (dir, stored) = (TempDir::new().unwrap(), Stored::default());
    let seen = Arc::clone(&stored);
    let mut count = 0;
    let url = serve(move |request| {
        count += 1;
        match count {
            2 => error(429, "migration_rate_exceeded", Some(1)),
            _ => store_all(&seen, request),
        }
    });
    let stats = Arc::new(StageStats::default());
    load_with(&dir, &url, Duration::ZERO, &stats);
    // A pause that is over stays to be reported once.
    let snapshot = stats.snapshot();
    let reason = snapshot.waiting_for.unwrap();
    assert_eq!(reason, "It is so.", "as the server said");
    assert!(snapshot.waiting_until.unwrap().ends_with('Z'));
}

#[test]
fn requests_are_of_one_month() {
    let (dir, stored) = (TempDir::new().unwrap(), Stored::default());
    let (seen, mixed) = (Arc::clone(&stored), Arc::new(Mutex::new(0)));
    let count = Arc::clone(&mixed);
    let url = serve(move |request| {
        let events = request.events();
        let month = |event: &Value| event["timestamp"].as_str().unwrap()[..7].to_owned();
        if events.iter().any(|event| month(event) != month(&events[0])) {
            *count.lock().unwrap() += 1;
        }
        store_all(&seen, request)
    });
    let outcome = loaded(&dir, &url);
    assert_eq!(outcome.progress.sum.accepted.total(), EVENTS);
    assert_eq!(*mixed.lock().unwrap(), 0);
    assert_all_stored_once(&stored);
}

#[test]
fn a_request_that_fails_for_now_is_retried_until_it_is_accepted() {
    let (dir, stored) = (TempDir::new().unwrap(), Stored::default());
    let seen = Arc::clone(&stored);
    let mut count = 0;
    let url = serve(move |request| {
        count += 1;
        match count {
            2 => error(429, "migration_rate_exceeded", Some(1)),
            5 => error(429, "migration_rate_exceeded", None),
            7 => error(503, "queue_full", None),
            _ => store_all(&seen, request),
        }
    });
    let outcome = loaded(&dir, &url);
    assert_eq!(outcome.progress.sum.accepted.total(), EVENTS);
    assert_all_stored_once(&stored);
}

#[test]
fn a_fatal_response_stops_the_import_and_the_next_run_continues_it() {
    const TABLE: [(u16, &str, &str); 4] = [
        (429, "migration_volume_exceeded", "Ask the operator"),
        (403, "payment_required", "It is so."),
        (401, "unknown_api_key", "--project-key"),
        (503, "queue_full", "goes on where it stopped"),
    ];
    let (dir, stored) = (TempDir::new().unwrap(), Stored::default());
    let step = Arc::new(Mutex::new(0_usize));
    let (seen, now) = (Arc::clone(&stored), Arc::clone(&step));
    let mut accepted_of_step = [0; 4];
    let url = serve(move |request| {
        let step = *now.lock().unwrap();
        if let Some((status, code, _)) = TABLE.get(step) {
            accepted_of_step[step] += 1;
            if accepted_of_step[step] > 5 {
                return error(*status, code, None);
            }
        }
        store_all(&seen, request)
    });
    let mut before = 0;
    for (_, code, needle) in TABLE {
        let outcome = load(&dir, &url, Duration::ZERO);
        let accepted = outcome.progress.sum.accepted.total();
        assert!(accepted >= before && accepted < EVENTS, "{code}");
        before = accepted;
        let stop = outcome.stop.unwrap();
        assert!(stop.message.contains(needle), "{stop}");
        *step.lock().unwrap() += 1;
    }
    let outcome = loaded(&dir, &url);
    assert_eq!(outcome.progress.sum.accepted.total(), EVENTS);
    // Requests in flight when it stopped were sent again, with the same uuids.
    assert_eq!(stored.lock().unwrap().len() as u64, EVENTS);
}

#[test]
fn requests_that_are_too_large_are_sent_in_parts() {
    let (dir, stored) = (TempDir::new().unwrap(), Stored::default());
    let seen = Arc::clone(&stored);
    let url = serve(move |request| {
        if request.events().len() > 7 {
            error(413, "batch_exceeds_rate", None)
        } else {
            store_all(&seen, request)
        }
    });
    let outcome = loaded(&dir, &url);
    assert_eq!(outcome.progress.sum.accepted.total(), EVENTS);
    assert_all_stored_once(&stored);
}

/// Refuses every second event; lists only the first three, but all in a dry run.
fn refuse_even(stored: &Stored, request: &ReceivedRequest) -> CannedResponse {
    let is_dry = request.path.contains("dry_run");
    let mut refused = Vec::new();
    for (index, event) in request.events().iter().enumerate() {
        if event["properties"]["number"]
            .as_u64()
            .unwrap()
            .is_multiple_of(2)
        {
            let attr = format!("batch[{index}].properties");
            let refusal =
                json!({ "index": index, "code": "odd_only", "detail": "No.", "attr": attr });
            refused.push(refusal);
        } else if !is_dry {
            store(stored, event);
        }
    }
    let count = refused.len();
    if !is_dry {
        refused.truncate(3);
    }
    let body = json!({ "status": "Ok", "rejected_count": count, "rejected": refused });
    (200, None, body)
}

#[test]
fn every_refused_event_is_kept_even_if_the_server_lists_only_some() {
    let (dir, stored) = (TempDir::new().unwrap(), Stored::default());
    let seen = Arc::clone(&stored);
    let url = serve(move |request| refuse_even(&seen, request));
    let outcome = loaded(&dir, &url);
    let sum = &outcome.progress.sum;
    assert_eq!(
        (sum.accepted.total(), sum.made.total()),
        (EVENTS / 2, EVENTS)
    );
    assert_eq!(sum.rejected["odd_only"], EVENTS / 2);
    assert_eq!(stored.lock().unwrap().len() as u64, EVENTS / 2);
    let staging = Staging::open(&dir.path().join("staging")).unwrap();
    let text = std::fs::read_to_string(staging.load("phc_x").rejects()).unwrap();
    let mut lines = Vec::new();
    for line in text.lines() {
        let reject: Reject = serde_json::from_str(line).unwrap();
        let raw: Value = serde_json::from_str(&reject.raw).unwrap();
        let number = raw["properties"]["number"].as_u64().unwrap();
        assert_eq!(number + 1, reject.line);
        assert_eq!(raw.get("uuid"), None);
        assert_eq!(reject.field.as_deref(), Some("properties"));
        lines.push(reject.line);
    }
    lines.sort_unstable();
    assert_eq!(lines, (1..=EVENTS).step_by(2).collect::<Vec<_>>());
}

#[test]
fn an_unreadable_body_is_split_until_the_bad_event_is_found() {
    let (dir, stored) = (TempDir::new().unwrap(), Stored::default());
    let seen = Arc::clone(&stored);
    // The reason is known to the server only.
    let url = serve(move |request| {
        let events = request.events();
        if events.iter().any(|it| it["properties"]["number"] == 500) {
            error(400, "invalid_json", None)
        } else {
            store_all(&seen, request)
        }
    });
    let outcome = loaded(&dir, &url);
    let sum = &outcome.progress.sum;
    assert_eq!(
        (sum.accepted.total(), sum.rejected["invalid_json"]),
        (EVENTS - 1, 1)
    );
    assert_eq!(stored.lock().unwrap().len() as u64, EVENTS - 1);
}
