//! The console in a real browser, over a real server.

use crate::commands::{command, stdout};
use crate::readme::output;
use crate::server::{Server, post};
use crate::tidy::root;
use serde_json::{Value, json};
use std::process::Command;
use tempfile::TempDir;

/// Command that runs a script of the console's.
fn script(name: &str) -> Command {
    let mut node = Command::new("node");
    node.current_dir(root().join("admin/console")).arg(name);
    node
}

/// Key of somebody who is in an organization of their own only, made as people join.
fn key_of_another_tenant(dir: &TempDir) -> String {
    let made = stdout(&command(
        dir,
        &["organizations", "create", "--name", "Others"],
    ));
    let mut words = made.split_whitespace();
    let id = words.find(|word| word.len() == 36).unwrap();
    let invite = [
        "invites",
        "create",
        "--organization",
        id,
        "--level",
        "owner",
    ];
    let email = ["--email", "other@example.com"];
    let invited = stdout(&command(dir, &[&invite[..], &email[..]].concat()));
    let link = invited.lines().next().unwrap().trim();
    let body = json!({"first_name": "Olga", "last_name": ""}).to_string();
    let (status, joined) = post(
        &format!("{}/", link.replace("/signup/", "/api/signup/")),
        &body,
    );
    assert_eq!(status, 201, "{joined}");
    joined["personal_api_key"].as_str().unwrap().to_owned()
}

fn target(server: &Server, other_personal_key: &str) -> Value {
    json!({
        "console_url": server.credential("admin_url"),
        "ingest_url": server.credential("ingest_url"),
        "project_api_key": server.credential("project_api_key"),
        "personal_key": server.credential("personal_api_key"),
        "other_personal_key": other_personal_key,
    })
}

#[test]
fn people_do_their_work_in_a_browser_that_stays_quiet() {
    let dir = TempDir::new().unwrap();
    let server = Server::start_with(dir.path(), &["--admin-requests-per-minute-max", "0"]);
    let other = key_of_another_tenant(&dir);
    server.capture(&json!([
        {"event": "signed up", "distinct_id": "ada", "properties": {"$set": {"plan": "team"}}},
    ]));
    server.wait_for("SELECT count() FROM millrace.events", "1");
    let mut node = script("tests/browser/run.mjs");
    node.env("MILLRACE_CONSOLE", target(&server, &other).to_string());
    // A machine that runs other tests is slower than one of a person.
    node.env("MILLRACE_CONSOLE_TIMEOUT_MS", "60000");
    let ran = node.output().unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{printed}\n{errors}");
}

#[test]
fn the_types_of_the_console_are_those_of_the_document() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    let document = format!("{}/api/schema/", server.credential("admin_url"));
    output(script("scripts/types.mjs").args([document.as_str(), "--check"]));
}
