//! The README's commands, run as they stand there.
//!
//! A block behind `<!-- run: NAME -->` is taken from the README, with the default addresses
//! replaced by those of the test's own server, and run in the folder whose `millrace-data` the
//! README speaks of.

use crate::server::Server;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// The code block with this name, for this server.
fn block(name: &str, server: &Server) -> String {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let marker = format!("<!-- run: {name} -->\n```");
    let (_, rest) = readme
        .split_once(&marker)
        .unwrap_or_else(|| panic!("the README has no block {name}"));
    let (_, rest) = rest.split_once('\n').unwrap();
    let (code, _) = rest.split_once("\n```").unwrap();
    code.replace("http://127.0.0.1:8000", &server.credential("ingest_url"))
        .replace("http://127.0.0.1:8010", &server.credential("admin_url"))
        .replace(
            "http://127.0.0.1:8123",
            &server.credential("clickhouse_url"),
        )
}

/// Runs a command to its end and gives what it printed.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_first_events_of_the_readme_arrive() {
    let home = TempDir::new().unwrap();
    let server = Server::start(&home.path().join("millrace-data"));
    let shell = [block("key", &server), block("curl", &server)].join("\n");
    let printed = output(
        Command::new("bash")
            .args(["-ec", &shell])
            .current_dir(&home),
    );
    assert_eq!(printed, r#"{"status":"Ok"}"#);

    let python = root().join(".test-env/python/bin/python");
    output(
        Command::new(python)
            .args(["-c", &block("python", &server)])
            .current_dir(&home),
    );

    // Modules are looked up from the script's own folder.
    std::os::unix::fs::symlink(
        root().join("load-tests/clients/node_modules"),
        home.path().join("node_modules"),
    )
    .unwrap();
    std::fs::write(home.path().join("first.mjs"), block("node", &server)).unwrap();
    output(Command::new("node").arg("first.mjs").current_dir(&home));

    server.wait_for("SELECT count() FROM millrace.events", "3");
    let table = output(
        Command::new("bash")
            .args(["-ec", &block("query", &server)])
            .current_dir(&home),
    );
    for who in ["ada", "grace", "linus"] {
        assert!(table.contains(who), "{table}");
    }
}

#[test]
fn the_readme_manages_an_organization() {
    let home = TempDir::new().unwrap();
    let server = Server::start(&home.path().join("millrace-data"));
    let run = |name: &str| -> serde_json::Value {
        let shell = [block("admin key", &server), block(name, &server)].join("\n");
        let shell = shell.replace("curl ", "curl --fail-with-body --silent --show-error ");
        let printed = output(
            Command::new("bash")
                .args(["-ec", &shell])
                .current_dir(&home),
        );
        serde_json::from_str(&printed).unwrap()
    };
    let project = run("admin project");
    assert_eq!(project["name"], "Website");
    assert!(project["api_token"].as_str().unwrap().starts_with("phc_"));
    let invite = run("admin invite");
    assert_eq!(invite["target_email"], "grace@example.com");
    let reader = run("admin reader");
    assert!(reader["value"].as_str().unwrap().starts_with("phx_"));
    let activity = run("admin activity");
    let entries = activity["results"].as_array().unwrap();
    for scope in ["Project", "OrganizationInvite", "PersonalAPIKey"] {
        assert!(
            entries.iter().any(|entry| entry["scope"] == scope),
            "{scope} in {activity}"
        );
    }
}

#[test]
fn the_readme_names_every_default_as_it_is() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let home = TempDir::new().unwrap();
    let shown = output(crate::server::millrace().arg("config").current_dir(&home));
    for name in [
        "data_dir",
        "ingest_addr",
        "admin_addr",
        "health_addr",
        "clickhouse_memory",
        "ack",
    ] {
        let line = shown
            .lines()
            .find(|line| line.starts_with(&format!("{name} = ")))
            .unwrap();
        let value = line.split('"').nth(1).unwrap();
        assert!(
            readme.contains(&format!("| `{name}` | `{value}`")),
            "{name} is {value}"
        );
    }
}
