//! Starts while the catalog is away, with the keys in the data folder.

use super::test_env::{Fleet, NOWHERE};
use crate::server::{Server, ask, eventually, get};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const ARGS: [&str; 2] = ["--clickhouse-url", NOWHERE];

fn table(fleet: &Fleet) -> PathBuf {
    fleet.folder("node").join("project-keys")
}

/// Waits until the table has a key, or has it no more.
fn until_kept(fleet: &Fleet, key: &str, is_kept: bool) {
    eventually("the table of keys", || {
        let text = fs::read_to_string(table(fleet)).ok()?;
        (text.contains(&format!(" {key}\n")) == is_kept).then_some(())
    });
}

fn post(server: &Server, key: &str) -> u16 {
    let batch = json!([{"event": "e", "distinct_id": "a"}]);
    let body = json!({"api_key": key, "batch": batch});
    server.post("/batch/", &body).0
}

/// Creates a project; returns its id and key.
fn new_project(server: &Server, name: &str) -> (i64, String) {
    let projects = "/api/organizations/@current/projects/";
    let (status, made) = ask(server, "POST", projects, &json!({ "name": name }));
    assert_eq!(status, 201, "{made}");
    let key = made["api_token"].as_str().unwrap().to_owned();
    (made["id"].as_i64().unwrap(), key)
}

fn states(fleet: &Fleet) -> Vec<String> {
    fleet.ask("SELECT state FROM ingest_nodes")
}

#[test]
fn a_node_starts_while_the_catalog_is_away_and_registers_once_it_is_back() {
    let fleet = Fleet::new();
    let server = fleet.start("serve", "node", &ARGS);
    let (_, unused) = new_project(&server, "Unused");
    let (revoked_id, revoked) = new_project(&server, "Revoked");
    until_kept(&fleet, &revoked, true);
    let path = format!("/api/organizations/@current/projects/{revoked_id}/");
    assert_eq!(ask(&server, "DELETE", &path, &Value::Null).0, 204);
    until_kept(&fleet, &revoked, false);
    until_kept(&fleet, &unused, true);
    let mode = fs::metadata(table(&fleet)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let key = server.credential("project_api_key");
    drop(server);
    fleet.take_catalog_away();
    let server = fleet.start("serve", "node", &ARGS);
    for (key, status) in [
        (&*key, 200),
        (&*unused, 200),
        (&*revoked, 503),
        ("phc_new", 503),
    ] {
        assert_eq!(post(&server, key), status, "{key}");
    }
    let health = server.credential("health_url");
    let (_, parts) = get(&format!("{health}/_health/ready?verbose"), &[]);
    assert!(
        parts.contains("it works with the project keys of"),
        "{parts}"
    );
    assert!(server.metric("millrace_key_table_age_seconds").is_some());
    assert!(fleet.log("node").contains("the catalog is away"));
    fleet.bring_catalog_back();
    fleet.until_logged("node", "the node is registered");
    eventually("a key that was asked for again", || {
        (post(&server, &revoked) == 401).then_some(())
    });
    let (_, parts) = get(&format!("{health}/_health/ready?verbose"), &[]);
    assert!(!parts.contains("it works with"), "{parts}");
    eventually("the node", || (states(&fleet) == ["running"]).then_some(()));
    drop(server);
}

#[test]
fn a_node_that_stopped_cleanly_starts_without_the_catalog_too() {
    let fleet = Fleet::new();
    let server = fleet.start("ingest", "node", &ARGS);
    let key = server.credential("project_api_key");
    until_kept(&fleet, &key, true);
    assert!(server.stop().success());
    assert_eq!(states(&fleet), ["stopped"]);
    fleet.take_catalog_away();
    let server = fleet.start("ingest", "node", &ARGS);
    assert_eq!(post(&server, &key), 200);
    fleet.bring_catalog_back();
    eventually("the node", || (states(&fleet) != ["stopped"]).then_some(()));
    assert!(!fleet.log("node").contains("run a backfill"));
}

#[test]
fn a_first_start_without_the_catalog_fails_with_its_cause() {
    let fleet = Fleet::new();
    fleet.take_catalog_away();
    let (code, said) = fleet.refused("ingest", "node", &ARGS);
    assert_eq!(code, 1);
    assert!(said.contains("cannot reach the catalog"), "{said}");
    assert!(!said.contains("pool"), "{said}");
}

#[test]
fn a_table_of_another_catalog_is_no_start_and_a_damaged_one_neither() {
    let fleet = Fleet::new();
    let server = fleet.start("ingest", "node", &ARGS);
    until_kept(&fleet, &server.credential("project_api_key"), true);
    assert!(server.stop().success());
    fleet.take_catalog_away();
    let text = fs::read_to_string(table(&fleet)).unwrap();
    let (title, keys) = text.split_once('\n').unwrap();
    let other = "millrace project keys 1 00000000-0000-4000-8000-000000000000";
    for changed in [format!("{other}\n{keys}"), format!("{title}\n")] {
        fs::write(table(&fleet), changed).unwrap();
        assert_eq!(fleet.refused("ingest", "node", &ARGS).0, 1);
    }
}
