//! `millrace drain`: a node ships all and leaves the fleet.

use super::test_env::{Fleet, NOWHERE};
use crate::clickhouse_outage::test_env::{Engine, PASSWORD};
use crate::server::run;
use rustix::process::{Signal, kill_process};
use serde_json::json;
use std::process::Output;

const ARGS: [&str; 2] = ["--clickhouse-url", NOWHERE];
const STATES: &str = "SELECT state FROM ingest_nodes";

/// Runs `millrace drain --wait` on the folder of the node.
fn drain(fleet: &Fleet) -> Output {
    let (folder, url) = (fleet.folder("node"), fleet.url());
    let args = ["drain", "--wait", "--database-url", &url];
    run(&[&args[..], &["--data-dir", folder.to_str().unwrap()]].concat())
}

#[test]
fn a_drained_node_has_an_empty_log_and_is_deregistered() {
    let fleet = Fleet::new();
    let mut server = fleet.start("ingest", "node", &ARGS);
    let output = drain(&fleet);
    assert!(output.status.success(), "{output:?}");
    assert!(server.wait().success());
    assert_eq!(fleet.ask(STATES), ["stopped"]);
    // It has stopped: there is nothing to be done.
    assert!(drain(&fleet).status.success());
    // A drain is over with the process.
    assert!(fleet.start("ingest", "node", &ARGS).stop().success());
}

#[test]
fn a_drain_waits_for_clickhouse_until_it_is_there_or_a_signal_comes() {
    let fleet = Fleet::new();
    let mut server = fleet.start("ingest", "node", &ARGS);
    server.capture(&json!([{"event": "waits", "distinct_id": "a"}]));
    std::thread::scope(|scope| {
        let drained = scope.spawn(|| drain(&fleet));
        fleet.until_logged("node", "asked to drain");
        kill_process(server.pid(), Signal::TERM).unwrap();
        let output = drained.join().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("before its log was empty"), "{said}");
    });
    assert!(server.wait().success());
    let output = drain(&fleet);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("start it with"), "{said}");
    let engine = Engine::start(&fleet.folder("engine"), PASSWORD);
    let at = [
        ["--clickhouse-url", &engine.url],
        ["--clickhouse-user", "millrace"],
        ["--clickhouse-password", PASSWORD],
    ];
    let mut server = fleet.start("ingest", "node", &at.concat());
    let output = drain(&fleet);
    assert!(output.status.success(), "{output:?}");
    assert!(server.wait().success());
    assert_eq!(engine.query("SELECT count() FROM millrace.events"), "1");
}
