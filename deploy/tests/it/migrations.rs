//! Historical migrations on the command line, beside a server that was asked for them.

use crate::server::{Server, ask, run};
use serde_json::{Value, json};
use std::process::Output;
use tempfile::TempDir;

const ALL: &str = "/api/organizations/@current/historical_migrations/";

fn command(dir: &TempDir, args: &[&str]) -> Output {
    let here = ["--data-dir", dir.path().to_str().unwrap()];
    run(&[&["migrations"], args, &here].concat())
}

/// What a command prints that succeeds.
fn told(dir: &TempDir, args: &[&str]) -> String {
    let output = command(dir, args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Asks for one through the API; answers its path and id.
fn asked(server: &Server, source: &str) -> (String, String) {
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
fn what_was_asked_for_is_listed_approved_and_rejected() {
    let dir = TempDir::new().unwrap();
    let server = Server::start_mode("admin", dir.path(), &[]);
    assert!(told(&dir, &["list"]).contains("Nobody has asked"));
    assert!(told(&dir, &["list", "--state", "rejected"]).contains("no such"));
    let (first, first_id) = asked(&server, "Amplitude");
    let (second, second_id) = asked(&server, "Mixpanel");
    let listed = told(&dir, &["list"]);
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
    let said = told(&dir, &args);
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

    let said = told(&dir, &["reject", &second_id, "--note", "Too fast"]);
    assert!(said.contains("rejected"), "{said}");
    let (_, seen) = ask(&server, "GET", &second, &Value::Null);
    assert_eq!(
        (&seen["state"], &seen["note"]),
        (&json!("rejected"), &json!("Too fast"))
    );

    let rejected = told(&dir, &["list", "--state", "rejected"]);
    assert!(
        rejected.contains(&second_id) && !rejected.contains(&first_id),
        "{rejected}"
    );
    let activity = "/api/organizations/@current/activity/?scopes=HistoricalMigration";
    let (_, log) = ask(&server, "GET", activity, &Value::Null);
    assert_eq!(log["results"][0]["user"]["first_name"], "Command line");
}

#[test]
fn a_project_is_allowed_one_by_its_number() {
    let dir = TempDir::new().unwrap();
    let server = Server::start_mode("admin", dir.path(), &[]);
    let team = server.credential("team_id");
    let (asked, _) = asked(&server, "Amplitude");
    let numbers = ["--total-events", "7", "--events-per-minute", "3"];
    let grant = [&["approve", "--team-id", &team][..], &numbers].concat();
    let said = told(&dir, &grant);
    assert!(
        said.contains("approved: 7 events, 3 events a minute"),
        "{said}"
    );
    let (_, seen) = ask(&server, "GET", &asked, &Value::Null);
    assert_eq!(
        (&seen["state"], &seen["total_events"]),
        (&json!("approved"), &json!(7))
    );
    // Nothing is open any more: this makes one.
    told(&dir, &grant);
    let (_, list) = ask(&server, "GET", ALL, &Value::Null);
    assert_eq!(list["count"], 2);
}

#[test]
fn what_cannot_be_decided_is_said_with_a_number() {
    let dir = TempDir::new().unwrap();
    let server = Server::start_mode("admin", dir.path(), &[]);
    let (path, id) = asked(&server, "Amplitude");
    let (status, _) = ask(&server, "PATCH", &path, &json!({ "state": "finished" }));
    assert_eq!(status, 200);
    let nobody = "01890f00-0000-7000-8000-000000000000";
    let numbers = ["--total-events", "1", "--events-per-minute", "1"];
    let unknown_team = [&["approve", "--team-id", "99"][..], &numbers].concat();
    let table = [
        (vec!["approve", nobody], 1, nobody),
        (vec!["reject", nobody], 1, nobody),
        (vec!["approve", &id], 1, "finished"),
        (unknown_team, 1, "99"),
        (vec!["approve"], 64, "--team-id"),
        (vec!["approve", "--team-id", "1"], 64, "--total-events"),
        (vec!["approve", &id, "--team-id", "1"], 64, "--team-id"),
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
