//! Tests of the native protocol, by clickhouse-driver from PyPI in the tests' Python environment.

use std::path::Path;
use std::process::Command;

use millrace_embedded::testing::{PASSWORD, TestEngine};

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
