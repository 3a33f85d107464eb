//! Backup and restore of a separate ClickHouse and PostgreSQL, as the runbook says.

use crate::clickhouse_outage::test_env::{Engine, PASSWORD};
use crate::readme::root;
use crate::server::{Server, ask};
use millrace_catalog::testing::TestDatabase;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const ORGANIZATIONS: &str = "/api/organizations/";

/// Runs a block of the runbook against an engine and a database, with backups below `home`.
fn run(block: &str, home: &Path, engine: &Engine, database: &TestDatabase) {
    let text = std::fs::read_to_string(root().join("deploy/RUNBOOK.md")).unwrap();
    let marker = format!("<!-- run: {block} -->\n```sh\n");
    let (_, rest) = text.split_once(&marker).expect(block);
    let (code, _) = rest.split_once("\n```").unwrap();
    let code = code
        .replace("http://127.0.0.1:8123", &engine.url)
        .replace("/backups", home.to_str().unwrap());
    let output = Command::new("bash")
        .args(["-ec", &code])
        .env("PASSWORD", PASSWORD)
        .env("MILLRACE_DATABASE_URL", database.url())
        .output()
        .unwrap();
    assert!(output.status.success(), "{block}: {output:?}");
}

/// Starts a server with this engine and catalog.
fn serve(dir: &Path, engine: &Engine, database: &TestDatabase, key: &str) -> Server {
    let settings = [
        ["--clickhouse-url", engine.url.as_str()],
        ["--clickhouse-user", "millrace"],
        ["--clickhouse-password", PASSWORD],
        ["--database-url", database.url()],
        ["--secret-key", key],
    ];
    Server::start_with(dir, &settings.concat())
}

#[test]
fn a_separate_clickhouse_and_postgresql_are_backed_up_and_restored_as_the_runbook_says() {
    const KEY: &str = "Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2E=";
    let home = TempDir::new().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let [old_data, new_data] = [(); 2].map(|()| runtime.block_on(TestDatabase::postgres()));
    let backups = ["--clickhouse-backup-dir", home.path().to_str().unwrap()];
    let old_engine = Engine::start_with(&home.path().join("old-engine"), PASSWORD, &backups);
    let old = serve(&home.path().join("old"), &old_engine, &old_data, KEY);
    let personal_key = old.credential("personal_api_key");
    let made = ask(&old, "POST", ORGANIZATIONS, &json!({"name": "Acme"}));
    assert_eq!(made.0, 201, "{made:?}");
    old.capture(&json!([{"event": "before", "distinct_id": "a", "properties": {"$set": {"plan": "large"}}}]));
    old.wait_for("SELECT count() FROM millrace.events", "1");
    old.wait_for("SELECT count() FROM millrace.persons FINAL", "1");
    run("backup parts", home.path(), &old_engine, &old_data);
    old.capture(&json!([{"event": "after", "distinct_id": "a"}]));

    let new_engine = Engine::start_with(&home.path().join("new-engine"), PASSWORD, &backups);
    run("restore parts", home.path(), &new_engine, &new_data);
    let new = serve(&home.path().join("new"), &new_engine, &new_data, KEY);
    let key = old.credential("project_api_key");
    assert_eq!(new.credential("project_api_key"), key);
    let url = format!("{}{ORGANIZATIONS}", new.credential("admin_url"));
    let bearer = format!("Bearer {personal_key}");
    let (status, listed) = crate::server::get(&url, &[("authorization", bearer.as_str())]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((status, &listed["count"]), (200, &json!(2)), "{listed}");
    new.wait_for("SELECT event FROM millrace.events", "before");
    new.wait_for("SELECT count() FROM millrace.persons FINAL", "1");
    new.capture(&json!([{"event": "new", "distinct_id": "a"}]));
    new.wait_for("SELECT count() FROM millrace.events", "2");
    // Exports of the new server do not wait for a node of the old one.
    let states = "SELECT DISTINCT state FROM ingest_nodes WHERE state <> 'running'";
    let others = runtime.block_on(new_data.first_column(states)).unwrap();
    assert!(others.iter().all(|state| state == "stopped"), "{others:?}");
}
