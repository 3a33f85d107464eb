//! Commands for historical migrations, beside a running server.

use crate::server::{Server, ask, run};
use serde_json::{Value, json};
use std::process::Output;
use tempfile::TempDir;

const ALL: &str = "/api/organizations/@current/historical_migrations/";

fn command(dir: &TempDir, args: &[&str]) -> Output {
    let here = ["--data-dir", dir.path().to_str().unwrap()];
    run(&[&["migrations"], args, &here].concat())
}

/// Runs a command that must succeed; returns its output.
fn run_ok(dir: &TempDir, args: &[&str]) -> String {
    let output = command(dir, args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Requests a migration through the API; returns its path and id.
fn request_migration(server: &Server, source: &str) -> (String, String) {
    let new = json!({
        "source": source, "method": "export", "total_events": 30_000_000,
        "events_per_minute": 20_000,
    });
    let (status, made) = ask(server, "POST", ALL, &new);
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_str().unwrap().to_owned();
    (format!("{ALL}{id}/"), id)
}

#[test]
fn requests_are_listed_approved_and_rejected() {
    let dir = TempDir::new().unwrap();
    let server = Server::start_mode("admin", dir.path(), &[]);
    assert!(run_ok(&dir, &["list"]).contains("Nobody has asked"));
    assert!(run_ok(&dir, &["list", "--state", "rejected"]).contains("no such"));
    let (first, first_id) = request_migration(&server, "Amplitude");
    let (second, second_id) = request_migration(&server, "Mixpanel");
    let listed = run_ok(&dir, &["list"]);
    assert!(
        listed.contains(&first_id) && listed.contains("Mixpanel"),
        "{listed}"
    );

    let args = [
        "approve",
        &first_id,
        "--events-per-minute",
        "5000",
        "--note",
        "Welcome",
    ];
    let said = run_ok(&dir, &args);
    assert!(
        said.contains("approved: 30,000,000 events, 5,000 events a minute"),
        "{said}"
    );
    let (_, seen) = ask(&server, "GET", &first, &Value::Null);
    let decided = (&seen["state"], &seen["note"], &seen["events_per_minute"]);
    assert_eq!(
        decided,
        (&json!("approved"), &json!("Welcome"), &json!(5000))
    );
    assert!(seen["decided_at"].is_string());

    let said = run_ok(&dir, &["reject", &second_id, "--note", "Too fast"]);
    assert!(said.contains("rejected"), "{said}");
    let (_, seen) = ask(&server, "GET", &second, &Value::Null);
    assert_eq!(
        (&seen["state"], &seen["note"]),
        (&json!("rejected"), &json!("Too fast"))
    );

    let rejected = run_ok(&dir, &["list", "--state", "rejected"]);
    assert!(
        rejected.contains(&second_id) && !rejected.contains(&first_id),
        "{rejected}"
    );
    let activity = "/api/organizations/@current/activity/?scopes=HistoricalMigration";
    let (_, log) = ask(&server, "GET", activity, &Value::Null);
    assert_eq!(log["results"][0]["user"]["first_name"], "Command line");
}

#[test]
fn a_project_gets_an_approval_by_its_id() {
    let dir = TempDir::new().unwrap();
    let server = Server::start_mode("admin", dir.path(), &[]);
    let project_id = server.credential("team_id");
    let (path, _) = request_migration(&server, "Amplitude");
    let numbers = ["--total-events", "7", "--events-per-minute", "3"];
    let grant = [&["approve", "--project-id", &project_id][..], &numbers].concat();
    let said = run_ok(&dir, &grant);
    assert!(
        said.contains("approved: 7 events, 3 events a minute"),
        "{said}"
    );
    let (_, seen) = ask(&server, "GET", &path, &Value::Null);
    assert_eq!(
        (&seen["state"], &seen["total_events"]),
        (&json!("approved"), &json!(7))
    );
    // No request is open any more: this creates a migration. The option has its former name here.
    let grant = [&["approve", "--team-id", &project_id][..], &numbers].concat();
    run_ok(&dir, &grant);
    let (_, list) = ask(&server, "GET", ALL, &Value::Null);
    assert_eq!(list["count"], 2);
}

#[test]
fn an_invalid_decision_prints_its_reason_and_exits_nonzero() {
    let dir = TempDir::new().unwrap();
    let server = Server::start_mode("admin", dir.path(), &[]);
    let (path, id) = request_migration(&server, "Amplitude");
    let (status, _) = ask(&server, "PATCH", &path, &json!({ "state": "finished" }));
    assert_eq!(status, 200);
    let nobody = "01890f00-0000-7000-8000-000000000000";
    let numbers = ["--total-events", "1", "--events-per-minute", "1"];
    let unknown_project = [&["approve", "--project-id", "99"][..], &numbers].concat();
    let table = [
        (vec!["approve", nobody], 1, nobody),
        (vec!["reject", nobody], 1, nobody),
        (vec!["approve", &id], 1, "finished"),
        (unknown_project, 1, "99"),
        (vec!["approve"], 64, "--project-id"),
        (vec!["approve", "--project-id", "1"], 64, "--total-events"),
        (
            vec!["approve", &id, "--project-id", "1"],
            64,
            "--project-id",
        ),
        (vec!["approve", &id, "--total-events", "0"], 1, "at least 1"),
        (vec!["reject", "nonsense"], 64, "nonsense"),
        (vec!["list", "--state", "open"], 64, "requested"),
    ];
    for (args, code, needle) in table {
        let output = command(&dir, &args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(needle), "{args:?}: {text}");
    }
}
