//! What an import does with answers of every kind.

use crate::server::{Answer, Asked, serve};
use millrace_import::chunk::Cuts;
use millrace_import::files::find;
use millrace_import::load::{Load, Outcome, run};
use millrace_import::meter::Meter;
use millrace_import::plan::Plan;
use millrace_import::reject::Reject;
use millrace_import::staging::Staging;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

const EVENTS: u64 = 1_000;

/// How often each event was stored, by its uuid.
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

fn load(dir: &TempDir, url: &str, patience: Duration) -> Outcome {
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
        patience,
        cuts: Cuts {
            chunk_bytes: 20_000,
            request_events: 40,
            ..Cuts::default()
        },
    };
    run(&load, &Arc::new(Meter::default())).unwrap()
}

/// Of a server that takes everything in the end.
fn loaded(dir: &TempDir, url: &str) -> Outcome {
    let outcome = load(dir, url, Duration::from_secs(60));
    assert_eq!(outcome.stop, None);
    outcome
}

fn ok() -> Answer {
    (200, None, json!({ "status": "Ok" }))
}

fn error(status: u16, code: &str, retry_after: Option<u32>) -> Answer {
    let body = json!({ "code": code, "detail": "It is so." });
    (status, retry_after, body)
}

fn store(stored: &Stored, event: &Value) {
    let uuid = event["uuid"].as_str().unwrap().to_owned();
    *stored.lock().unwrap().entry(uuid).or_default() += 1;
}

fn store_all(stored: &Stored, asked: &Asked) -> Answer {
    asked.events().iter().for_each(|event| store(stored, event));
    ok()
}

fn all_once(stored: &Stored) {
    let stored = stored.lock().unwrap();
    assert_eq!(stored.len() as u64, EVENTS);
    assert!(stored.values().all(|times| *times == 1));
}

#[test]
fn requests_are_of_one_month() {
    let (dir, stored) = (TempDir::new().unwrap(), Stored::default());
    let (seen, mixed) = (Arc::clone(&stored), Arc::new(Mutex::new(0)));
    let count = Arc::clone(&mixed);
    let url = serve(move |asked| {
        let events = asked.events();
        let month = |event: &Value| event["timestamp"].as_str().unwrap()[..7].to_owned();
        if events.iter().any(|event| month(event) != month(&events[0])) {
            *count.lock().unwrap() += 1;
        }
        store_all(&seen, asked)
    });
    let outcome = loaded(&dir, &url);
    assert_eq!(outcome.progress.sum.accepted.total(), EVENTS);
    assert_eq!(*mixed.lock().unwrap(), 0);
    all_once(&stored);
}

#[test]
fn what_is_not_taken_now_is_sent_again_until_it_is() {
    let (dir, stored) = (TempDir::new().unwrap(), Stored::default());
    let seen = Arc::clone(&stored);
    let mut count = 0;
    let url = serve(move |asked| {
        count += 1;
        match count {
            2 => error(429, "migration_rate_exceeded", Some(1)),
            5 => error(429, "migration_rate_exceeded", None),
            7 => error(503, "queue_full", None),
            _ => store_all(&seen, asked),
        }
    });
    let outcome = loaded(&dir, &url);
    assert_eq!(outcome.progress.sum.accepted.total(), EVENTS);
    all_once(&stored);
}

#[test]
fn what_will_not_be_taken_stops_the_import_which_goes_on_when_it_is() {
    const TABLE: [(u16, &str, &str); 4] = [
        (429, "migration_volume_exceeded", "Ask the operator"),
        (403, "payment_required", "It is so."),
        (401, "unknown_api_key", "--project-key"),
        (503, "queue_full", "goes on where it stopped"),
    ];
    let (dir, stored) = (TempDir::new().unwrap(), Stored::default());
    let step = Arc::new(Mutex::new(0_usize));
    let (seen, now) = (Arc::clone(&stored), Arc::clone(&step));
    let mut taken_of_step = [0; 4];
    let url = serve(move |asked| {
        let step = *now.lock().unwrap();
        if let Some((status, code, _)) = TABLE.get(step) {
            taken_of_step[step] += 1;
            if taken_of_step[step] > 5 {
                return error(*status, code, None);
            }
        }
        store_all(&seen, asked)
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
    // Those that were under way when it stopped came again, under the same uuids.
    assert_eq!(stored.lock().unwrap().len() as u64, EVENTS);
}

#[test]
fn requests_that_are_too_large_are_sent_in_parts() {
    let (dir, stored) = (TempDir::new().unwrap(), Stored::default());
    let seen = Arc::clone(&stored);
    let url = serve(move |asked| {
        if asked.events().len() > 7 {
            error(413, "batch_exceeds_rate", None)
        } else {
            store_all(&seen, asked)
        }
    });
    let outcome = loaded(&dir, &url);
    assert_eq!(outcome.progress.sum.accepted.total(), EVENTS);
    all_once(&stored);
}

/// Lists the first few that it refuses, and tells of the rest without storing when asked so.
fn choosy(stored: &Stored, asked: &Asked) -> Answer {
    let is_dry = asked.path.contains("dry_run");
    let mut refused = Vec::new();
    for (index, event) in asked.events().iter().enumerate() {
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
fn every_event_that_is_refused_is_kept_though_the_server_lists_but_a_few() {
    let (dir, stored) = (TempDir::new().unwrap(), Stored::default());
    let seen = Arc::clone(&stored);
    let url = serve(move |asked| choosy(&seen, asked));
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
fn a_body_that_the_server_cannot_read_is_taken_apart() {
    let (dir, stored) = (TempDir::new().unwrap(), Stored::default());
    let seen = Arc::clone(&stored);
    // For a reason that nobody but the server knows.
    let url = serve(move |asked| {
        let events = asked.events();
        if events.iter().any(|it| it["properties"]["number"] == 500) {
            error(400, "invalid_json", None)
        } else {
            store_all(&seen, asked)
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
