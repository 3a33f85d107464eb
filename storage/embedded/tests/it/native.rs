//! Tests of the native protocol, by clickhouse-driver from PyPI in the tests' Python environment.

use std::path::Path;
use std::process::Command;

use millrace_embedded::testing::{PASSWORD, TestEngine};
use millrace_embedded::{PROJECT, QUERY, QueryKey, UsersFile, VIEWS, project_user, token_hash};

use crate::client::query;
use crate::python_client::{python, run};

#[test]
fn the_native_protocol_serves_the_users_of_the_http_interface() {
    let engine = TestEngine::start_with_native();
    query(&engine, "CREATE DATABASE millrace");
    let port = engine.native_port().unwrap().to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/check_clickhouse_driver.py");
    let arguments = [&port, &engine.user, &engine.password, PASSWORD];
    let out = run(Command::new(python()).arg(script).args(arguments));
    assert_eq!(out.trim(), "all is well");
    // Wrong passwords over this protocol would end an engine without a terminal.
    assert_eq!(query(&engine, "SELECT 1"), "1\n");
}

/// A client of this protocol chooses what `currentUser()` is, and sends settings with its
/// statement.
#[test]
fn a_project_that_claims_to_be_another_user_sees_no_other_rows() {
    let engine = TestEngine::start_with_native();
    for sql in [
        "CREATE DATABASE millrace",
        "CREATE DATABASE project",
        "CREATE TABLE millrace.events (team_id Int64) ENGINE = MergeTree ORDER BY team_id",
        "INSERT INTO millrace.events VALUES (1), (2)",
        "CREATE TABLE project.tokens (hash String, team_id Int64) ENGINE = MergeTree ORDER BY hash",
    ] {
        query(&engine, sql);
    }
    let view = format!(
        "CREATE VIEW project.events DEFINER = {VIEWS} SQL SECURITY DEFINER AS SELECT * FROM millrace.events"
    );
    query(&engine, &view);
    let dir = engine.users_dir().unwrap();
    let mut users = UsersFile::load(&dir).unwrap();
    let own = users.rotate(&project_user(1));
    users.store(&dir).unwrap();
    let other = QueryKey::of(&engine.password).password(2);
    for (user, password, id) in [(PROJECT, &own, 1), (QUERY, &other, 2)] {
        let hash = token_hash(user, password);
        query(
            &engine,
            &format!("INSERT INTO project.tokens VALUES ('{hash}', {id})"),
        );
    }
    let second = engine.by(QUERY, &other);
    assert_eq!(query(&second, "SELECT team_id FROM project.events"), "2\n");
    let token = query(&second, "SELECT getSetting('query_cache_tag')");
    let port = engine.native_port().unwrap().to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/check_secondary_query.py");
    let arguments = [port.as_str(), own.as_str(), token.trim()];
    let out = run(Command::new(python()).arg(script).args(arguments));
    assert_eq!(out.trim(), "all is well");
}
