//! First steps of a new user: start, paste, query, stop, start again.

use crate::nodes::until_exports_advance;
use crate::server::{Server, get, millrace, on_own_ports, warnings};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Inserts of live events by which events of older months must have been answered.
const LIVE_INSERTS_MAX: u32 = 8;

#[test]
fn the_printed_curl_line_works_when_pasted() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    let line = server
        .banner()
        .lines()
        .find(|line| line.trim_start().starts_with("curl "))
        .unwrap();
    let pasted = Command::new("sh").args(["-c", line]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&pasted.stdout),
        r#"{"status":"Ok"}"#
    );
    server.wait_for(
        "SELECT event, distinct_id FROM millrace.events",
        "hello\tme",
    );
}

#[test]
fn the_banner_has_addresses_and_keys() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    for name in [
        "ingest_url",
        "admin_url",
        "health_url",
        "clickhouse_url",
        "project_api_key",
    ] {
        let value = server.credential(name);
        assert!(
            !value.is_empty() && server.banner().contains(&value),
            "{name} {value}: {}",
            server.banner()
        );
    }
    // Standard output is a pipe here, whose reader may store it where others can read it.
    let key = server.credential("personal_api_key");
    assert!(key.starts_with("phx_"), "{key}");
    assert!(!server.banner().contains(&key), "{}", server.banner());
    let kept = format!("in {}", server.credentials_path().display());
    assert!(server.banner().contains(&kept), "{}", server.banner());
    let mode = std::fs::metadata(server.credentials_path())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "for the owner's eyes only");
}

#[test]
fn a_restart_keeps_keys_and_ships_pending_events() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    let (project_key, personal_key) = (
        server.credential("project_api_key"),
        server.credential("personal_api_key"),
    );
    server.wait_for("SELECT 1", "1");
    server.capture(&json!([{"event": "first", "distinct_id": "a"}]));
    let status = server.stop();
    assert!(status.success(), "SIGTERM ends with {status}");

    let server = Server::start(dir.path());
    assert_eq!(server.credential("project_api_key"), project_key);
    assert_eq!(server.credential("personal_api_key"), personal_key);
    server.capture(&json!([{"event": "second", "distinct_id": "a"}]));
    server.wait_for(
        "SELECT groupArray(event) FROM (SELECT event FROM millrace.events ORDER BY event)",
        "['first','second']",
    );
}

#[test]
fn live_events_of_older_months_are_answered_soon_with_ack_clickhouse() {
    let dir = TempDir::new().unwrap();
    let server = Server::start_with(dir.path(), &["--ack", "clickhouse"]);
    server.wait_for_tables();
    // As many months as get an insert of their own before rows wait to be batched.
    let old = |month: u32| {
        let time = format!("2021-{month:02}-05T10:00:00Z");
        json!({"event": "old", "distinct_id": "a", "timestamp": time})
    };
    for (events, count) in [
        ((1..=4).map(old).collect::<Vec<_>>(), "4"),
        (vec![old(9)], "5"),
    ] {
        let inserts = live_inserts_beside(&server, || server.capture(&json!(events)));
        let stored = server.query("SELECT count() FROM millrace.events WHERE event = 'old'");
        assert_eq!(stored, count, "what is answered can be queried");
        // Live events gather for a second before each insert; such rows waited for 15 s once.
        assert!(inserts < LIVE_INSERTS_MAX, "after {inserts} inserts");
    }
}

/// Sends live events one after the other, each of which is answered after an insert of its own,
/// until a request is answered; returns their number.
fn live_inserts_beside(server: &Server, request: impl FnOnce()) -> u32 {
    let is_answered = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let live = scope.spawn(|| {
            let mut inserts = 0;
            while inserts < LIVE_INSERTS_MAX && !is_answered.load(Ordering::Acquire) {
                server.capture(&json!([{"event": "live", "distinct_id": "a"}]));
                inserts += 1;
            }
            inserts
        });
        request();
        is_answered.store(true, Ordering::Release);
        live.join().unwrap()
    })
}

#[test]
fn health_and_metrics_answer_on_their_own_listener() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.wait_for("SELECT 1", "1");
    server.capture(&json!([{"event": "e", "distinct_id": "a"}]));
    let url = server.credential("health_url");
    for path in ["/_health/live", "/_health/ready"] {
        let (status, body) = get(&format!("{url}{path}"), &[]);
        assert_eq!(status, 200, "{path}: {body}");
    }
    let (status, body) = get(&format!("{url}/metrics"), &[]);
    assert_eq!(status, 200);
    assert!(body.contains("millrace_ingest_events_total"), "{body}");
}

#[test]
fn the_admin_api_knows_the_first_organization() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    let url = format!("{}/api/organizations/", server.credential("admin_url"));
    let bearer = format!("Bearer {}", server.credential("personal_api_key"));
    let (status, body) = get(&url, &[("Authorization", &bearer)]);
    let page: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &page["count"]), (200, &json!(1)), "{body}");
    assert_eq!(
        page["results"][0]["id"],
        json!(server.credential("organization_id"))
    );
    assert_eq!(get(&url, &[]).0, 401);
}

#[test]
fn printed_credentials_are_those_of_the_file() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    let print = || {
        let data_dir = dir.path().to_str().unwrap();
        millrace()
            .args(["serve", "--print-credentials", "--data-dir", data_dir])
            .output()
            .unwrap()
    };
    let printed: serde_json::Value = serde_json::from_slice(&print().stdout).unwrap();
    assert_eq!(
        printed["project_api_key"],
        json!(server.credential("project_api_key"))
    );
    std::fs::remove_file(server.credentials_path()).unwrap();
    let gone = print();
    assert_eq!(gone.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&gone.stderr).contains("keys create"),
        "{gone:?}"
    );
}

#[test]
fn a_first_start_logs_no_warning() {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("stderr");
    let mut command = on_own_ports("serve", dir.path());
    command.stderr(std::fs::File::create(&log).unwrap());
    let server = Server::start_command(&mut command, dir.path());
    // All background parts have started, and persons are up to date.
    until_exports_advance(dir.path());
    server.capture(&json!([
        {"event": "seen", "distinct_id": "ann", "properties": {"$set": {"plan": "small"}}},
    ]));
    server.wait_for("SELECT count() FROM millrace.persons_current", "1");
    assert!(server.stop().success());
    assert_eq!(warnings(&log), "");
}
