//! Operator's commands, as typed.

use crate::server::{Server, eventually, millrace, run};
use serde_json::json;
use std::process::Output;
use tempfile::TempDir;

pub fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn command(dir: &TempDir, args: &[&str]) -> Output {
    run(&[args, &["--data-dir", dir.path().to_str().unwrap()]].concat())
}

#[test]
fn a_project_key_is_created_used_and_revoked() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    let key = stdout(&command(&dir, &["keys", "create", "--project", "Shop"]))
        .trim()
        .to_owned();
    let body = json!({"api_key": key, "batch": [{"event": "e", "distinct_id": "a"}]});
    assert_eq!(server.post("/batch/", &body).0, 200);
    assert!(stdout(&command(&dir, &["keys", "list"])).contains(&key));
    stdout(&command(&dir, &["keys", "revoke", &key]));
    // Within two seconds, as another process did it.
    eventually("the key's end", || {
        (server.post("/batch/", &body).0 == 401).then_some(())
    });
    server.wait_for("SELECT uniqExact(team_id) >= 1 FROM millrace.events", "1");
}

#[test]
fn a_chosen_project_key_takes_over_existing_sdks() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    let key = "phc_recording0000000000000000000000000000000";
    stdout(&command(
        &dir,
        &["keys", "create", "--project", "Old", "--key", key],
    ));
    let body = json!({"api_key": key, "batch": [{"event": "e", "distinct_id": "a"}]});
    eventually("the key's first answer", || {
        (server.post("/batch/", &body).0 == 200).then_some(())
    });
}

#[test]
fn a_personal_key_is_shown_once() {
    let dir = TempDir::new().unwrap();
    let _server = Server::start(dir.path());
    let args = [
        "keys",
        "create",
        "--user",
        "owner@localhost",
        "--scopes",
        "organization:read",
    ];
    let key = stdout(&command(&dir, &args))
        .lines()
        .next()
        .unwrap()
        .to_owned();
    assert!(key.starts_with("phx_") && key.len() == 47, "{key}");
    let listed = stdout(&command(&dir, &["keys", "list"]));
    assert!(
        !listed.contains(&key) && listed.contains("organization:read"),
        "{listed}"
    );
    stdout(&command(&dir, &["keys", "revoke", &key]));
}

#[test]
fn a_failed_command_prints_its_reason_and_exits_nonzero() {
    let dir = TempDir::new().unwrap();
    let _server = Server::start(dir.path());
    let table = [
        (
            vec!["keys", "create", "--user", "nobody@example.com"],
            1,
            "nobody@example.com",
        ),
        (
            vec![
                "keys",
                "create",
                "--user",
                "owner@localhost",
                "--scopes",
                "everything",
            ],
            1,
            "everything",
        ),
        (vec!["keys", "create"], 64, "--user"),
        (vec!["keys", "revoke", "phc_unknown"], 1, "no project key"),
        (vec!["organizations", "create", "--name", ""], 1, "1 to"),
        (vec!["keyz"], 64, "keys"),
        (
            vec!["rejected", "list", "--limit", "0"],
            64,
            "give a whole number from 1",
        ),
        (
            vec!["query", "SELECT 1", "--project", "abc"],
            64,
            "give the id of a project, such as 1",
        ),
        (
            vec!["rejected", "resend", "--set", "=ada"],
            64,
            "give FIELD=VALUE, such as distinct_id=ada",
        ),
        (
            vec!["rejected", "resend", "--all", "--unsent"],
            64,
            "cannot be used with",
        ),
    ];
    for (args, code, needle) in table {
        let output = command(&dir, &args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(needle), "{args:?}: {text}");
    }
}

#[test]
fn the_usage_in_an_error_lists_required_arguments_and_no_given_settings() {
    let table = [
        ("keys revoke", "Usage: millrace keys revoke [OPTIONS] <KEY>"),
        (
            "nodes deregister",
            "Usage: millrace nodes deregister [OPTIONS] <NODE>",
        ),
        (
            "organizations create",
            "Usage: millrace organizations create [OPTIONS] --name <NAME>",
        ),
        ("keyz", "Usage: millrace [OPTIONS] [COMMAND]"),
    ];
    for (command, usage) in table {
        let output = millrace()
            .args(command.split(' '))
            .args(["--data-dir", "x", "--log-level", "warn"])
            .env("MILLRACE_GRACE_SECONDS", "5")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{command}: {text}");
        let line = text.lines().find(|line| line.starts_with("Usage:"));
        assert_eq!(line, Some(usage), "{command}: {text}");
    }
}

/// Where `millrace.toml` cannot be used, help is needed most.
#[test]
fn help_completions_and_manual_pages_need_no_settings() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("millrace.toml"), "colour = 1\n").unwrap();
    let table = [
        ("help", "Usage: millrace [OPTIONS] [COMMAND]"),
        ("help keys create", "Usage: millrace keys create"),
        ("help settings", "ingest_addr = ADDR"),
        ("--help", "millrace help settings"),
        ("completions zsh", "#compdef millrace"),
        ("man --to pages", "pages/millrace.1"),
    ];
    for (line, told) in table {
        let output = millrace().args(line.split(' ')).current_dir(&dir).output();
        let text = stdout(&output.unwrap());
        assert!(text.contains(told), "{line}: {text}");
    }
    let pages = std::fs::read_dir(dir.path().join("pages")).unwrap();
    assert!(pages.count() > 50);
    for line in [
        "help colour",
        "help settings colour",
        "man --to /dev/null/x",
    ] {
        let output = millrace().args(line.split(' ')).current_dir(&dir).output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{line}: {text}");
        let mut does_help = ["millrace help", "another folder"].iter();
        assert!(does_help.any(|it| text.contains(it)), "{text}");
    }
}

#[test]
fn organizations_are_created_and_listed() {
    let dir = TempDir::new().unwrap();
    let _server = Server::start(dir.path());
    let made = stdout(&command(
        &dir,
        &[
            "organizations",
            "create",
            "--name",
            "Acme",
            "--owner",
            "owner@localhost",
        ],
    ));
    assert!(made.contains("Acme") && made.contains("phc_"), "{made}");
    assert!(stdout(&command(&dir, &["organizations", "list"])).contains("Acme"));
}

#[test]
fn the_log_is_inspected_beside_a_running_server() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.capture(&json!([{"event": "e", "distinct_id": "a"}]));
    let text = stdout(&command(&dir, &["log", "inspect", "--frames"]));
    assert!(
        text.contains("live log") && text.contains("historical log"),
        "{text}"
    );
}

#[test]
fn migrate_may_be_run_again() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.wait_for("EXISTS millrace.events", "1");
    for _ in 0..2 {
        assert!(stdout(&command(&dir, &["migrate"])).contains("schema of this version"));
    }
}

#[test]
fn events_of_deleted_projects_are_listed_and_then_purged() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.capture(&json!([{"event": "kept", "distinct_id": "a"}]));
    server.wait_for_tables();
    server.wait_for("SELECT count() FROM millrace.events", "1");
    assert!(stdout(&command(&dir, &["purge"])).contains("No deleted project"));
    server.query(
        "INSERT INTO millrace.events SELECT generateUUIDv4(), 'gone', '{}', now64(6), 4242, 'a', \
         now64(6), false FROM numbers(3)",
    );
    let listed = stdout(&command(&dir, &["purge"]));
    assert!(
        listed.contains("4242") && listed.contains("--yes"),
        "{listed}"
    );
    assert_eq!(server.query("SELECT count() FROM millrace.events"), "4");
    let purged = stdout(&command(&dir, &["purge", "--yes"]));
    assert!(purged.contains("3 rows of 1 project deleted."), "{purged}");
    assert_eq!(server.query("SELECT event FROM millrace.events"), "kept");
}

#[test]
fn a_command_that_needs_the_server_says_so_when_it_is_stopped() {
    let dir = TempDir::new().unwrap();
    assert!(Server::start(dir.path()).stop().success());
    for args in [&["rejected", "list"][..], &["purge"]] {
        let output = command(&dir, args);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("start it with `millrace serve`"), "{told}");
    }
}
