//! Data folders and ClickHouse with another catalog than before: projects have the same numbers in
//! each catalog, so what has rows of one catalog's projects refuses another one.

use crate::clickhouse_outage::test_env::{Engine, PASSWORD};
use crate::server::{Server, error_line, eventually, get, millrace, on_own_ports};
use millrace_catalog::testing::TestDatabase;
use millrace_load::proxy::Proxy;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Arguments of a server without ClickHouse, for which its stop does not wait.
const ALONE: [&str; 4] = [
    "--clickhouse-url",
    "http://127.0.0.1:9",
    "--grace-seconds",
    "1",
];
const COUNT: &str = "SELECT count() FROM millrace.events";

/// Arguments of a catalog in a file.
fn catalog_in(file: &Path) -> [String; 2] {
    let url = format!("sqlite://{}?mode=rwc", file.display());
    ["--database-url".to_owned(), url]
}

/// Arguments of a ClickHouse at this address.
fn clickhouse_at(url: &str) -> [&str; 6] {
    [
        "--clickhouse-url",
        url,
        "--clickhouse-user",
        "millrace",
        "--clickhouse-password",
        PASSWORD,
    ]
}

/// Runs a command that must be refused as one with wrong settings; returns its error.
fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{said}");
    error_line(&said).to_owned()
}

fn assert_names(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
}

/// Folder of a server that was stopped, with an event in its log or none.
fn used_folder(home: &TempDir, has_event: bool) -> PathBuf {
    let dir = home.path().join("data");
    let server = Server::start_mode("ingest", &dir, &ALONE);
    if has_event {
        server.capture(&json!([{"event": "e", "distinct_id": "d"}]));
    }
    assert!(server.stop().success());
    dir
}

#[test]
fn a_folder_with_events_is_refused_with_another_catalog_by_servers_and_commands() {
    let home = TempDir::new().unwrap();
    let dir = used_folder(&home, true);
    let other = catalog_in(&home.path().join("other.db"));
    let files = ["credentials.json", "catalog-id"].map(|name| dir.join(name));
    let contents = || files.each_ref().map(|file| fs::read(file).unwrap());
    let before = contents();
    let words = [
        dir.to_str().unwrap(),
        "catalog.db",
        "other.db",
        "millrace catalog copy --to",
        "--data-dir",
    ];
    for mode in ["serve", "ingest", "admin"] {
        let said = refused(on_own_ports(mode, &dir).args(ALONE).args(&other));
        assert_names(&said, &words);
    }
    for command in [
        "keys create --project Shop",
        "organizations list",
        "purge",
        "migrate",
    ] {
        let mut run = millrace();
        run.args(command.split(' ')).args(&ALONE[..2]).args(&other);
        let said = refused(run.arg("--data-dir").arg(&dir));
        assert_names(&said, &words);
    }
    assert_eq!(contents(), before);
    let server = Server::start_mode("ingest", &dir, &ALONE);
    let key = server.credential("project_api_key");
    assert!(String::from_utf8_lossy(&before[0]).contains(&key), "{key}");
}

#[test]
fn a_folder_of_an_earlier_version_takes_its_catalog_and_no_empty_one() {
    let home = TempDir::new().unwrap();
    let dir = used_folder(&home, true);
    let kept = dir.join("catalog-id");
    fs::remove_file(&kept).unwrap();
    let other = catalog_in(&home.path().join("other.db"));
    let said = refused(on_own_ports("ingest", &dir).args(ALONE).args(&other));
    assert_names(&said, &["that has the organization", "other.db"]);
    assert!(!kept.exists());
    let server = Server::start_mode("ingest", &dir, &ALONE);
    assert!(kept.exists());
    drop(server);
    assert_names(
        &refused(on_own_ports("ingest", &dir).args(ALONE).args(&other)),
        &["catalog.db", "other.db"],
    );
}

#[test]
fn a_folder_without_events_takes_another_catalog_and_says_so() {
    let home = TempDir::new().unwrap();
    let dir = used_folder(&home, false);
    let log = home.path().join("log");
    let other = catalog_in(&home.path().join("other.db"));
    let mut command = on_own_ports("ingest", &dir);
    command.args(ALONE).args(&other);
    command.stderr(File::create(&log).unwrap());
    let server = Server::start_command(&mut command, &dir);
    server.capture(&json!([{"event": "e", "distinct_id": "d"}]));
    drop(server);
    let said = fs::read_to_string(&log).unwrap();
    assert_names(&said, &["WARN", "with another catalog from now on"]);
    refused(on_own_ports("ingest", &dir).args(ALONE));
}

/// Detail of ClickHouse's part of `/_health/ready?verbose`.
fn clickhouse_detail(server: &Server) -> String {
    let url = server.credential("health_url");
    let (_, body) = get(&format!("{url}/_health/ready?verbose"), &[]);
    let body: Value = serde_json::from_str(&body).unwrap();
    let parts = body["parts"].as_array().unwrap();
    let part = parts.iter().find(|part| part["name"] == "clickhouse");
    part.unwrap()["detail"].to_string()
}

#[test]
fn a_clickhouse_with_rows_of_another_catalog_is_neither_read_nor_written() {
    let home = TempDir::new().unwrap();
    let folder = |name: &str| home.path().join(name);
    let engine = Engine::start(&folder("engine"), PASSWORD);
    let at = clickhouse_at(&engine.url);
    let server = Server::start_mode("ingest", &folder("first"), &at);
    server.capture(&json!([{"event": "e", "distinct_id": "d"}]));
    server.wait_for(COUNT, "1");
    assert!(server.stop().success());
    for mode in ["serve", "ingest", "admin"] {
        let mut command = on_own_ports(mode, &folder(mode));
        let said = refused(command.args(at));
        assert_names(&said, &[&engine.url, "another catalog", "database_url"]);
        // It was not filled either.
        assert!(!folder(mode).join("credentials.json").exists());
    }

    // A server that starts while ClickHouse is away finds out later.
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], 0)), &engine.url).unwrap();
    proxy.set("down".parse().unwrap());
    let url = proxy.url();
    let dir = folder("second");
    let second = Server::start_mode("serve", &dir, &clickhouse_at(&url));
    second.capture(
        &json!([{"event": "foreign", "distinct_id": "d", "properties": {"$set": {"a": 1}}}]),
    );
    proxy.lift();
    eventually("a report", || {
        let detail = clickhouse_detail(&second);
        detail.contains("another catalog").then_some(())
    });
    for command in [&["query", "SELECT count() FROM events"][..], &["purge"]] {
        let mut run = millrace();
        run.args(command).args(clickhouse_at(&url));
        let output = run.arg("--data-dir").arg(&dir).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{command:?}: {output:?}");
        assert_names(&said, &["another catalog"]);
    }
    assert_eq!(engine.query(COUNT), "1");
    let updates = "SELECT count() FROM millrace.person_updates";
    assert_eq!(engine.query(updates), "0");
}

#[test]
fn a_new_clickhouse_gets_all_persons_and_the_log_tells_once_of_the_events_it_lacks() {
    let home = TempDir::new().unwrap();
    let [first, second] =
        ["one", "two"].map(|name| Engine::start(&home.path().join(name), PASSWORD));
    let (dir, log) = (home.path().join("server"), home.path().join("log"));
    let server = Server::start_with(&dir, &clickhouse_at(&first.url));
    let known = json!({"event": "e", "distinct_id": "ann", "properties": {"$set": {"a": 1}}});
    server.capture(&json!([known]));
    server.wait_for("SELECT count() FROM millrace.persons FINAL", "1");
    assert!(server.stop().success());
    for _ in 0..2 {
        let mut command = on_own_ports("serve", &dir);
        let kept = File::options().create(true).append(true).open(&log);
        command
            .args(clickhouse_at(&second.url))
            .stderr(kept.unwrap());
        let server = Server::start_command(&mut command, &dir);
        server.capture(&json!([{"event": "later", "distinct_id": "ann"}]));
        let properties = "SELECT DISTINCT person_properties FROM millrace.events_with_persons WHERE event = 'later'";
        server.wait_for(properties, "{\"a\":1}");
        assert!(server.stop().success());
    }
    let said = fs::read_to_string(&log).unwrap();
    for words in ["ClickHouse has no rows", "are copied again"] {
        assert_eq!(said.matches(words).count(), 1, "{words}: {said}");
    }
}

#[test]
fn a_catalog_goes_on_in_postgres_after_a_copy_and_the_former_one_is_refused() {
    let home = TempDir::new().unwrap();
    let dir = home.path().join("data");
    let engine = Engine::start(&home.path().join("engine"), PASSWORD);
    let at = clickhouse_at(&engine.url);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(TestDatabase::postgres());
    let copy = || {
        let mut command = millrace();
        command.args(["catalog", "copy", "--to", database.url()]);
        command.arg("--data-dir").arg(&dir).output().unwrap()
    };
    let server = Server::start_with(&dir, &at);
    let known = json!({"event": "e", "distinct_id": "d", "properties": {"$set": {"a": 1}}});
    server.capture(&json!([known]));
    server.wait_for("SELECT count() FROM millrace.persons FINAL", "1");
    let names = ["project_api_key", "organization_id", "team_id"];
    let before = names.map(|name| server.credential(name));
    let used = copy();
    assert!(!used.status.success(), "{used:?}");
    assert_names(&String::from_utf8_lossy(&used.stderr), &["stop it"]);
    assert!(server.stop().success());

    // The lease of a process that was just stopped may have been released too late.
    eventually("a copy", || copy().status.success().then_some(()));
    refused(on_own_ports("serve", &dir).args(at));
    let args = [&at[..], &["--database-url", database.url()]].concat();
    let server = Server::start_with(&dir, &args);
    assert_eq!(names.map(|name| server.credential(name)), before);
    server.capture(&json!([{"event": "e", "distinct_id": "d"}]));
    server.wait_for(COUNT, "2");
    assert!(server.stop().success());
}
