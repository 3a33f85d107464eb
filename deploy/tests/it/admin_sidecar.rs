//! The organization API beside ingestion: in another process on the same catalog, and inside
//! `millrace serve`.

use crate::server::{Server, ask, eventually};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

const PROJECTS: &str = "/api/organizations/@current/projects/";

/// Posts an event with this key; returns the status.
fn capture(server: &Server, key: &str) -> u16 {
    let event = json!({"api_key": key, "event": "e", "distinct_id": "a"});
    server.post("/i/v0/e/", &event).0
}

fn assert_ends(server: &Server, key: &str) {
    // The contract says two seconds; the exact time is not tested here.
    eventually("the key's end", || {
        (capture(server, key) == 401).then_some(())
    });
}

/// Creates, resets and deletes a project by the API, and watches its key at the ingest listener.
fn keys_live_and_end(ingest: &Server, admin: &Server) {
    let (status, made) = ask(admin, "POST", PROJECTS, &json!({"name": "Shop"}));
    assert_eq!(status, 201, "{made}");
    let first = made["api_token"].as_str().unwrap();
    assert_eq!(made["ingested_event"], false);
    assert_eq!(capture(ingest, first), 200, "a new key works at once");
    let path = format!("{PROJECTS}{}/", made["id"]);
    eventually("the note of the first event", || {
        let (status, project) = ask(admin, "GET", &path, &Value::Null);
        assert_eq!(status, 200, "{project}");
        (project["ingested_event"] == true).then_some(())
    });
    let (status, reset) = ask(admin, "PATCH", &format!("{path}reset_token/"), &json!({}));
    assert_eq!(status, 200, "{reset}");
    let second = reset["api_token"].as_str().unwrap();
    assert_ends(ingest, first);
    assert_eq!(capture(ingest, second), 200, "its successor works");
    assert_eq!(ask(admin, "DELETE", &path, &Value::Null).0, 204);
    assert_ends(ingest, second);
}

#[test]
fn a_key_changed_by_the_api_of_the_same_process_ends_with_the_response() {
    const TIMES: usize = 30;
    let dir = TempDir::new().unwrap();
    // Nothing listens there.
    let server = Server::start_with(dir.path(), &["--clickhouse-url", "http://127.0.0.1:9"]);
    let (status, made) = ask(&server, "POST", PROJECTS, &json!({"name": "Shop"}));
    assert_eq!(status, 201, "{made}");
    let path = format!("{PROJECTS}{}/", made["id"]);
    let mut key = made["api_token"].as_str().unwrap().to_owned();
    for time in 0..TIMES {
        assert_eq!(capture(&server, &key), 200, "time {time}");
        let reset = format!("{path}reset_token/");
        let (status, reset) = ask(&server, "PATCH", &reset, &json!({}));
        assert_eq!(status, 200, "{reset}");
        assert_eq!(capture(&server, &key), 401, "the old key, time {time}");
        key = reset["api_token"].as_str().unwrap().to_owned();
        assert_eq!(capture(&server, &key), 200, "the new key, time {time}");
    }
    assert_eq!(ask(&server, "DELETE", &path, &Value::Null).0, 204);
    assert_eq!(capture(&server, &key), 401, "the key of a deleted project");

    let new = json!({"name": "Acme"});
    let (status, made) = ask(&server, "POST", "/api/organizations/", &new);
    assert_eq!(status, 201, "{made}");
    let path = format!("/api/organizations/{}/", made["id"].as_str().unwrap());
    let (_, projects) = ask(&server, "GET", &format!("{path}projects/"), &Value::Null);
    let key = projects["results"][0]["api_token"].as_str().unwrap();
    assert_eq!(capture(&server, key), 200);
    assert_eq!(ask(&server, "DELETE", &path, &Value::Null).0, 204);
    assert_eq!(
        capture(&server, key),
        401,
        "a key of a deleted organization"
    );
}

fn engine_elsewhere(dir: &Path) -> Server {
    // Nothing listens there: events stay in the log, which is all that these tests need.
    let args = ["--clickhouse-url", "http://127.0.0.1:9"];
    Server::start_mode("ingest", dir, &args)
}

#[test]
fn a_key_reset_or_deleted_by_one_process_ends_in_the_other() {
    let dir = TempDir::new().unwrap();
    let ingest = engine_elsewhere(dir.path());
    let admin = Server::start_mode("admin", dir.path(), &[]);
    keys_live_and_end(&ingest, &admin);
}

#[test]
fn a_key_reset_or_deleted_in_the_same_process_ends() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    keys_live_and_end(&server, &server);
}

#[test]
fn a_revoked_personal_key_is_refused_by_another_process_at_once() {
    let dir = TempDir::new().unwrap();
    let first = Server::start_mode("admin", dir.path(), &[]);
    let all = "/api/personal_api_keys/";
    let new = json!({"label": "Short", "scopes": ["organization:read"]});
    let (status, made) = ask(&first, "POST", all, &new);
    assert_eq!(status, 201, "{made}");
    let url = format!("{}{PROJECTS}", first.credential("admin_url"));
    let bearer = format!("Bearer {}", made["value"].as_str().unwrap());
    let get = || crate::server::get(&url, &[("authorization", bearer.as_str())]).0;
    assert_eq!(get(), 200);
    let id = made["id"].as_str().unwrap();
    let revoked = crate::server::run(&[
        "keys",
        "revoke",
        id,
        "--data-dir",
        dir.path().to_str().unwrap(),
    ]);
    assert!(revoked.status.success(), "{revoked:?}");
    eventually("the key's end", || (get() == 401).then_some(()));
}
