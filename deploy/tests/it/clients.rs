//! Real SDKs against the real server: all events that they send can be queried.

use crate::server::Server;
use millrace_catalog::UtcTime;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Events that each client sends.
const EVENTS: usize = 1_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn python(server: &Server, mode: &str) -> Vec<Value> {
    let mut command = Command::new(root().join(".test-env/python/bin/python"));
    command.arg("send_python.py");
    send(command, server, mode)
}

fn node(server: &Server, mode: &str) -> Vec<Value> {
    let mut command = Command::new("node");
    command.arg("send_node.mjs");
    send(command, server, mode)
}

fn send(mut command: Command, server: &Server, mode: &str) -> Vec<Value> {
    let output = command
        .current_dir(root().join("load-tests/clients"))
        .args([
            server.credential("ingest_url"),
            server.credential("project_api_key"),
        ])
        .args([EVENTS.to_string().as_str(), mode])
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; run `make test-setup`"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Stored row of an event.
fn stored(rows: &[Value], uuid: &Value) -> Value {
    let found: Vec<_> = rows.iter().filter(|row| &row["uuid"] == uuid).collect();
    assert_eq!(
        found.len(),
        1,
        "event {uuid} is stored {} times",
        found.len()
    );
    found[0].clone()
}

fn assert_stored(server: &Server, sent: &[Value], mode: &str) {
    assert_eq!(sent.len(), EVENTS);
    let historical = u8::from(mode == "historical");
    let count =
        format!("SELECT count() FROM millrace.events WHERE historical_migration = {historical}");
    server.wait_for(&count, &EVENTS.to_string());
    let project_id = server.credential("team_id");
    let rows = server.query(&format!(
        "SELECT uuid, event, distinct_id, toUnixTimestamp64Micro(timestamp) AS at, toString(team_id) AS team, properties \
         FROM millrace.events WHERE historical_migration = {historical} FORMAT JSONEachRow"
    ));
    let rows: Vec<Value> = rows
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for event in sent {
        let row = stored(&rows, &event["uuid"]);
        for column in ["event", "distinct_id"] {
            assert_eq!(row[column], event[column], "{column} of {event}");
        }
        assert_eq!(row["team"], Value::from(project_id.as_str()));
        assert_eq!(
            micros(&row["at"]),
            micros_of(event["timestamp"].as_str().unwrap()),
            "time of {event}"
        );
        let properties: Value = serde_json::from_str(row["properties"].as_str().unwrap()).unwrap();
        for (name, value) in event["properties"].as_object().unwrap() {
            assert_eq!(&properties[name], value, "property {name} of {event}");
        }
        assert!(
            properties.get("$lib").is_some(),
            "the SDK's own properties are there: {properties}"
        );
    }
}

/// Reads a number, which ClickHouse writes as text if it is large.
fn micros(value: &Value) -> i128 {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
        .parse()
        .unwrap()
}

fn micros_of(text: &str) -> i128 {
    UtcTime::from_rfc3339(text).unwrap().0.into()
}

#[test]
fn the_python_sdk_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    for mode in ["live", "historical"] {
        assert_stored(&server, &python(&server, mode), mode);
    }
}

#[test]
fn the_python_sdk_loses_no_event_of_a_language_model() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    assert_stored(&server, &python(&server, "ai"), "ai");
}

#[test]
fn the_node_sdk_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    for mode in ["live", "historical"] {
        assert_stored(&server, &node(&server, mode), mode);
    }
}
