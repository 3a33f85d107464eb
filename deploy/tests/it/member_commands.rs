//! Commands for organizations, invites, members and features, which need no API key. They open the
//! catalog; a running server notices their changes.

use crate::server::{Server, get, post, run};
use millrace_catalog::Catalog;
use millrace_catalog::testing::TestDatabase;
use millrace_organizations::{BootstrapOptions, bootstrap};
use serde_json::{Value, json};
use std::process::Output;
use tempfile::TempDir;

fn command(dir: &TempDir, args: &[&str]) -> Output {
    run(&[args, &["--data-dir", dir.path().to_str().unwrap()]].concat())
}

/// Runs a command that must succeed; returns its output.
fn run_ok(dir: &TempDir, args: &[&str]) -> String {
    let output = command(dir, args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// First line, which is for the clipboard.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap()
}

/// Line of a table that contains this text.
fn line_with<'a>(table: &'a str, needle: &str) -> &'a str {
    let line = table.lines().find(|line| line.contains(needle));
    line.unwrap_or_else(|| panic!("{needle} is not in {table}"))
}

/// Opens a signup link with its JSON, as its page does.
fn sign_up(link: &str, body: &Value) -> (u16, Value) {
    let api = link.replace("/signup/", "/api/signup/");
    post(&format!("{api}/"), &body.to_string())
}

#[test]
fn a_link_has_an_address_where_the_organization_api_has_not_run() {
    let dir = TempDir::new().unwrap();
    let elsewhere = ["--clickhouse-url", "http://127.0.0.1:9"];
    let server = Server::start_mode("ingest", dir.path(), &elsewhere);
    assert_eq!(server.credential("admin_url"), "");
    let invited = run_ok(&dir, &["invites", "create", "--email", "bob@example.com"]);
    let link = first_line(&invited);
    assert!(link.starts_with("http://127.0.0.1:"), "{link}");
    assert!(link.contains("/signup/"), "{link}");
}

#[test]
fn people_are_invited_promoted_and_removed_without_a_key() {
    let dir = TempDir::new().unwrap();
    let server = Server::start_mode("admin", dir.path(), &[]);
    let args = [
        "invites",
        "create",
        "--email",
        "bob@example.com",
        "--level",
        "8",
    ];
    let invited = run_ok(&dir, &args);
    let link = first_line(&invited);
    let base = server.credential("admin_url");
    assert!(
        link.starts_with(&format!("{}/signup/", base.trim_end_matches('/'))),
        "{link}"
    );
    assert!(
        invited.contains("bob@example.com administrator"),
        "{invited}"
    );
    let (status, page) = get(link, &[]);
    assert_eq!((status, page.contains("<html")), (200, true), "{page}");

    let (status, joined) = sign_up(link, &json!({"first_name": "Bob", "last_name": "B"}));
    assert_eq!((status, &joined["level"]), (201, &json!(8)), "{joined}");
    let bearer = format!(
        "Bearer {}",
        joined["personal_api_key"].as_str().unwrap_or_default()
    );
    let headers = [("authorization", bearer.as_str())];
    let me = format!("{base}/api/organizations/@current/members/@me/");
    let level = || {
        let (status, text) = get(&me, &headers);
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        (status, body["level"].clone())
    };
    assert_eq!(level(), (200, json!(8)));

    let members = run_ok(&dir, &["members", "list"]);
    assert!(
        line_with(&members, "bob@example.com").contains("Bob B"),
        "{members}"
    );
    assert!(
        line_with(&members, "owner@localhost").contains("15"),
        "{members}"
    );
    let args = [
        "members",
        "set-level",
        "--user",
        "Bob@example.com",
        "--level",
        "owner",
    ];
    assert!(run_ok(&dir, &args).contains("level 15 (owner)"));
    assert_eq!(level(), (200, json!(15)));
    run_ok(&dir, &["members", "remove", "--user", "bob@example.com"]);
    assert_eq!(level().0, 404);
    assert!(!run_ok(&dir, &["members", "list"]).contains("bob@example.com"));
    assert_eq!(
        sign_up(link, &json!({"first_name": "Bob", "last_name": ""})).0,
        404
    );
}

#[test]
fn an_organization_gets_its_owner_by_an_invite_link() {
    let dir = TempDir::new().unwrap();
    let _server = Server::start_mode("admin", dir.path(), &[]);
    let made = run_ok(&dir, &["organizations", "create", "--name", "Second"]);
    assert!(made.contains("no members yet"), "{made}");
    let listed = run_ok(&dir, &["organizations", "list"]);
    let second = line_with(&listed, "Second")
        .split_whitespace()
        .next()
        .unwrap();
    let at = ["--organization", second];
    let empty = run_ok(&dir, &[&["members", "list"][..], &at].concat());
    assert!(empty.contains("no members"), "{empty}");
    let who = ["--email", "ann@example.com", "--level", "owner"];
    let url = ["--admin-public-url", "https://millrace.example/"];
    let invite = [&["invites", "create"][..], &at, &who, &url].concat();
    let link = run_ok(&dir, &invite);
    assert!(
        link.starts_with("https://millrace.example/signup/"),
        "{link}"
    );
}

#[test]
fn features_are_switched_off_and_on() {
    let dir = TempDir::new().unwrap();
    let _server = Server::start_mode("admin", dir.path(), &[]);
    let state = |args: &[&str]| {
        let table = run_ok(&dir, &[&["organizations", "features"], args].concat());
        let line = line_with(&table, "role_based_access");
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(state(&[]), "on");
    assert_eq!(state(&["--off", "role_based_access,audit_logs"]), "off");
    assert_eq!(state(&[]), "off");
    assert_eq!(state(&["--on", "role_based_access"]), "on");
    // Where one of two changes is refused, so is the other.
    let both = ["--off", "flying", "--plugins-access-level", "3"];
    let features = ["organizations", "features"];
    let refused = command(&dir, &[&features[..], &both].concat());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let table = run_ok(&dir, &features);
    assert!(table.contains("plugins has level 9"), "{table}");
}

#[test]
fn a_command_that_only_shows_something_waits_for_nobody_who_writes() {
    let dir = TempDir::new().unwrap();
    let database = TestDatabase::sqlite();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let held = runtime.block_on(async {
        let catalog = Catalog::open(database.url()).await.unwrap();
        let made = bootstrap(&catalog, BootstrapOptions::default()).await;
        made.unwrap().unwrap();
        catalog.close().await.unwrap();
        database.lock_sqlite().await.unwrap()
    });
    let features = ["organizations", "features"];
    let asked = |words: &[&str]| {
        let output = command(&dir, &[words, &["--database-url", database.url()]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    };
    for words in [features, ["organizations", "list"], ["members", "list"]] {
        let (code, said) = asked(&words);
        assert_eq!(code, Some(0), "{words:?}: {said}");
    }
    // A change waits for as long as SQLite does.
    let (code, said) = asked(&[features, ["--off", "saml"]].concat());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("locked"), "{said}");
    runtime.block_on(async { drop(held) });
}

#[test]
fn a_failed_command_prints_advice() {
    let dir = TempDir::new().unwrap();
    let _server = Server::start_mode("admin", dir.path(), &[]);
    let unknown = "0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6071";
    let invite = |email| vec!["invites", "create", "--email", email];
    let set = |user, level| vec!["members", "set-level", "--user", user, "--level", level];
    let table = [
        (set("nobody@example.com", "8"), 1, "members list"),
        (set("owner@localhost", "8"), 1, "last owner"),
        (set("owner@localhost", "9"), 64, "8 or administrator"),
        (
            vec!["members", "remove", "--user", "owner@localhost"],
            1,
            "last owner",
        ),
        (vec!["members", "remove"], 64, "--user"),
        (
            vec!["members", "list", "--organization", unknown],
            1,
            "organizations list",
        ),
        (
            vec!["members", "list", "--organization", "acme"],
            64,
            "--organization",
        ),
        (invite("owner@localhost"), 1, "member already"),
        (invite("nobody"), 1, "not an e-mail address"),
        (invite("a@b\nBcc: c@d"), 1, "not an e-mail address"),
        (
            vec!["organizations", "features", "--off", "flying"],
            1,
            "flying",
        ),
        (
            vec![
                "organizations",
                "create",
                "--name",
                "A",
                "--owner",
                "nobody@example.com",
            ],
            1,
            "invites create",
        ),
        (
            vec!["keys", "create", "--user", "nobody@example.com"],
            1,
            "invites create",
        ),
    ];
    for (args, code, needle) in table {
        let output = command(&dir, &args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(needle), "{args:?}: {text}");
    }
    run_ok(&dir, &["organizations", "create", "--name", "Second"]);
    let output = command(&dir, &["members", "list"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("2 organizations; name one"), "{text}");
}
