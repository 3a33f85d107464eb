//! Processes with the name of a node that runs, or may run.

use super::test_env::{Fleet, NOWHERE};
use crate::data_folder_copies::{copy, host};
use crate::server::Server;
use rustix::process::{Signal, kill_process};
use serde_json::json;
use std::fs;

const ARGS: [&str; 2] = ["--clickhouse-url", NOWHERE];

/// Fleet of one node that was heard of, and a copy of its folder.
fn copied() -> (Fleet, Server) {
    let fleet = Fleet::new();
    let original = fleet.start("ingest", "original", &ARGS);
    fleet.until_reported(1);
    copy(&fleet.folder("original"), &fleet.folder("copy"));
    (fleet, original)
}

#[test]
fn a_copy_of_a_running_folder_is_refused_and_may_be_a_node_of_its_own() {
    let (fleet, original) = copied();
    let (code, said) = fleet.refused("ingest", "copy", &ARGS);
    assert_eq!(code, 1, "{said}");
    let node_file = fleet.folder("copy").join("node");
    let rule = "two processes cannot have one name";
    for word in [rule, &host(), node_file.to_str().unwrap()] {
        assert!(said.contains(word), "{word}: {said}");
    }
    original.capture(&json!([{"event": "e", "distinct_id": "a"}]));
    assert!(!fleet.log("original").contains("another copy"));
    fs::remove_file(node_file).unwrap();
    let copy = fleet.start("ingest", "copy", &ARGS);
    for server in [copy, original] {
        assert!(server.stop().success());
    }
}

#[test]
fn a_name_is_taken_after_a_minute_of_silence_and_its_former_owner_ends() {
    let (fleet, mut original) = copied();
    kill_process(original.pid(), Signal::STOP).unwrap();
    fleet.execute("UPDATE node_reports SET heard_at = heard_at - 60000000");
    let copy = fleet.start("ingest", "copy", &ARGS);
    kill_process(original.pid(), Signal::CONT).unwrap();
    assert_eq!(original.wait().code(), Some(1));
    let said = fleet.log("original");
    for word in ["another copy", &host(), "only one may run"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(copy.stop().success());
}

#[test]
fn a_killed_node_starts_again_at_once_in_its_folder() {
    let (fleet, original) = copied();
    drop(original);
    let original = fleet.start("ingest", "original", &ARGS);
    assert!(original.stop().success());
    assert!(!fleet.log("original").contains("had the name of this node"));
}
