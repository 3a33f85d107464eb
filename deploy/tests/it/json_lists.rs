//! Lists of the operator's commands as JSON, for programs.

use crate::commands::{command, stdout};
use crate::server::Server;
use serde_json::{Value, json};
use tempfile::TempDir;

fn object(dir: &TempDir, line: &str) -> Value {
    let words: Vec<&str> = line.split(' ').chain(["--json"]).collect();
    let text = stdout(&command(dir, &words));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"))
}

#[test]
fn each_list_is_one_json_object() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.wait_for_tables();
    stdout(&command(
        &dir,
        &["columns", "add", "plan", "--all-projects"],
    ));
    let table = [
        ("columns list", "/columns/0/path", json!(["plan"])),
        ("columns suggest", "/suggestions", json!([])),
        ("clickhouse-users list", "/users/0/name", json!("millrace")),
        ("keys list", "/projects/0/id", json!(1)),
        ("keys list", "/personal_keys/0/scopes", json!(["*"])),
        ("organizations features", "/features/saml", json!(true)),
        ("members list", "/members/0/level", json!(15)),
        ("members list", "/members/0/email", json!("owner@localhost")),
        ("migrations list", "/migrations", json!([])),
        ("rejected list", "/events", json!([])),
        ("rejected list", "/matching", json!(0)),
        ("log inspect --frames", "/is_damaged", json!(false)),
        ("log inspect", "/lanes/0/lane", json!("live")),
    ];
    for (line, pointer, expected) in table {
        let found = object(&dir, line);
        assert_eq!(found.pointer(pointer), Some(&expected), "{line}: {found}");
    }
    let nodes = object(&dir, "nodes list");
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 1, "{nodes}");
    let organizations = object(&dir, "organizations list");
    let id = organizations.pointer("/organizations/0/id").unwrap();
    assert_eq!(*id, json!(server.credential("organization_id")));
}

#[test]
fn a_rejected_event_is_listed_and_shown_as_json() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.wait_for_tables();
    let key = server.credential("project_api_key");
    let body =
        json!({"api_key": key, "batch": [{"event": "e"}, {"event": "e", "distinct_id": "a"}]});
    server.post("/batch/", &body);
    server.wait_for("SELECT count() FROM millrace.rejected_events", "1");
    let listed = object(&dir, "rejected list");
    let code = listed.pointer("/events/0/code");
    assert_eq!(code, Some(&json!("missing_distinct_id")), "{listed}");
    let shown = object(&dir, "rejected show");
    let raw: Value = serde_json::from_str(shown["raw"].as_str().unwrap()).unwrap();
    assert_eq!(raw["event"], "e");
    assert_eq!(shown["code"], "missing_distinct_id");
}
