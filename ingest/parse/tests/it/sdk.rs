//! Recorded requests of real SDKs, replayed: every event becomes the row it should.

use crate::support::{accepted, context, events};
use base64::Engine as _;
use millrace_parse::{KeyLookup, ParseContext, Protocol};
use millrace_rows::testing::Event;
use serde_json::Value;
use std::path::{Path, PathBuf};

const RECORDED_KEY: &str = "phc_recording0000000000000000000000000000000";

/// Body as the HTTP layer would hand it over: from the recorded bytes where this crate can decode
/// them, else what the recorder decoded.
fn body(recording: &Value) -> Vec<u8> {
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(recording["body_base64"].as_str().unwrap())
        .unwrap();
    let how: Vec<_> = recording["decoded_how"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    match how[0].as_str().unwrap() {
        "json" => bytes,
        "gzip" => {
            let mut out = vec![0; 1 << 20];
            let len = libdeflater::Decompressor::new()
                .gzip_decompress(&bytes, &mut out)
                .unwrap();
            out.truncate(len);
            out
        }
        _ => serde_json::to_vec(&recording["decoded"]).unwrap(),
    }
}

fn header<'r>(recording: &'r Value, name: &str) -> Option<&'r str> {
    let headers = recording["headers"].as_array().unwrap();
    let found = headers
        .iter()
        .find(|pair| pair[0].as_str().unwrap().eq_ignore_ascii_case(name));
    found.map(|pair| pair[1].as_str().unwrap())
}

/// Reads a recording. Text that SDKs sent and no strict reader takes is in there too: it is mended
/// where the recorder wrote down what it had decoded, not in the bytes that are replayed.
fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text
        .replace(": NaN", ": null")
        .replace("Infinity", "null")
        .replace(": -null", ": null");
    let mut mended = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("\\ud") {
        let (before, escape) = rest.split_at(at);
        if before.ends_with('\\') {
            // A backslash that was sent, not an escape.
            mended.push_str(before);
            mended.push_str(&escape[..1]);
            rest = &escape[1..];
            continue;
        }
        let is_pair = escape.get(6..).is_some_and(|next| next.starts_with("\\ud"));
        let len = if is_pair { 12 } else { 6 };
        mended.push_str(before);
        mended.push_str(if is_pair { &escape[..len] } else { "?" });
        rest = &escape[len..];
    }
    mended.push_str(rest);
    serde_json::from_str(&mended).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn recordings() -> Vec<(PathBuf, Value)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/sdk");
    let mut found = Vec::new();
    for sdk in std::fs::read_dir(root).unwrap() {
        for file in std::fs::read_dir(sdk.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let recording = read(&path);
            let target = recording["target"].as_str().unwrap();
            let is_capture = recording["kind"] == "ingest" && !target.starts_with("/i/v0/ai");
            if is_capture {
                found.push((path, recording));
            }
        }
    }
    found
}

fn replay(recording: &Value) -> Vec<Event> {
    let is_v1 = recording["target"].as_str().unwrap().starts_with("/i/v1");
    let protocol = if is_v1 {
        Protocol::V1 {
            key: RECORDED_KEY,
            sent_at: header(recording, "PostHog-Request-Timestamp"),
            sdk_info: header(recording, "PostHog-Sdk-Info"),
        }
    } else {
        Protocol::V0
    };
    let context = ParseContext {
        protocol,
        ..context()
    };
    let body = body(recording);
    let found = |key: &str| {
        assert_eq!(key, RECORDED_KEY);
        crate::support::find(crate::support::KEY)
    };
    let parsed = millrace_parse::Parser::default()
        .parse(&body, &context, &mut |key| -> KeyLookup { found(key) })
        .unwrap();
    assert_eq!(parsed.report.rejected_count, 0, "{:?}", parsed.report);
    assert_eq!(
        parsed.results.len(),
        if is_v1 { parsed.accepted as usize } else { 0 }
    );
    events(&parsed.batch)
}

/// Sorts rows as events are sorted that are stored in several months.
fn by_id(mut rows: Vec<Event>) -> Vec<Event> {
    rows.sort_by_key(|row| (row.properties.clone(), row.event.clone()));
    rows
}

#[test]
fn every_recorded_event_becomes_its_row() {
    let recordings = recordings();
    assert!(recordings.len() > 80, "{}", recordings.len());
    for (path, recording) in &recordings {
        let decoded = &recording["decoded"];
        let sent = decoded["batch"].as_array().or(decoded.as_array()).cloned();
        let sent = sent.unwrap_or_else(|| vec![decoded.clone()]);
        let rows = by_id(replay(recording));
        // Of long batches the recorder wrote down the ends, and how many it left out.
        let left_out = sent.iter().filter_map(Value::as_str).next();
        let left_out = left_out.map_or(0, |text| {
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            digits.parse::<usize>().unwrap()
        });
        let sent: Vec<_> = sent.into_iter().filter(Value::is_object).collect();
        assert_eq!(rows.len(), sent.len() + left_out, "{}", path.display());
        for event in &sent {
            let id = event
                .get("distinct_id")
                .unwrap_or(&event["properties"]["distinct_id"]);
            let matches = rows.iter().filter(|row| {
                row.event == event["event"].as_str().unwrap()
                    && row.distinct_id == id.as_str().unwrap().trim()
                    && event["uuid"]
                        .as_str()
                        .is_none_or(|uuid| uuid == row.uuid.to_string())
                    && contains(&row.properties, &event["properties"])
            });
            assert!(matches.count() >= 1, "{}: {event}", path.display());
            let historical = decoded["historical_migration"] == true;
            assert!(
                rows.iter()
                    .all(|row| row.historical_migration == historical),
                "{}",
                path.display()
            );
        }
    }
}

/// Returns true if stored properties hold all that was sent. Where the recorder's own parser
/// changed what was sent (lone surrogates, NaN, huge numbers), having the keys is enough.
fn contains(stored: &str, sent: &Value) -> bool {
    let Some(sent) = sent.as_object() else {
        return sent.is_null();
    };
    match serde_json::from_str::<Value>(stored) {
        Ok(stored) => sent.iter().all(|(key, value)| {
            let is_odd = value.is_null() || value.is_f64() || value.is_string();
            stored.get(key) == Some(value) || (is_odd && stored.get(key).is_some())
        }),
        Err(_) => sent.keys().all(|key| stored.contains(key.as_str())),
    }
}

#[test]
fn python_3_writes_nan_and_is_stored() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures/sdk/posthog-python-3.25.0/017.json");
    let recording = read(&path);
    let rows = replay(&recording);
    assert!(rows.iter().any(|row| row.properties.contains("null")));
    assert!(rows.iter().all(|row| !row.properties.contains("NaN,")));
    let text = String::from_utf8(body(&recording))
        .unwrap()
        .replace(RECORDED_KEY, crate::support::KEY);
    let report = accepted(text, &context()).report;
    assert!(
        report
            .warnings
            .iter()
            .any(|warning| warning.code == "repaired_json")
    );
}
