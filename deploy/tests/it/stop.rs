//! SIGTERM ends it well, at any moment.

use crate::nodes::states;
use crate::server::{
    Server, eventually, free_address, get, on_addresses, on_own_ports, run, warnings,
};
use millrace_catalog::NodeState;
use millrace_catalog::testing::TestDatabase;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;

/// What a start makes, in this order, from its first moment on.
const MADE: [&str; 6] = [
    "millrace.lock",
    "catalog.db",
    "credentials.json",
    "log",
    "node",
    "clickhouse",
];
/// Starts for each of them: a moment is a matter of microseconds.
const TRIES: usize = 5;

#[test]
fn a_server_that_is_still_starting_stops_when_asked() {
    for made_first in MADE.into_iter().cycle().take(MADE.len() * TRIES) {
        let dir = TempDir::new().unwrap();
        let log = dir.path().join("stderr");
        let mut child = on_own_ports("serve", dir.path())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let path = dir.path().join(made_first);
        eventually(made_first, || Path::exists(&path).then_some(()));
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let status = eventually("the server's end", || child.try_wait().unwrap());
        assert!(status.success(), "after {made_first}: {status}");
        let left: Vec<_> = states(dir.path());
        assert!(
            left.iter().all(|state| *state == NodeState::Stopped),
            "after {made_first}: {left:?}"
        );
        assert_eq!(warnings(&log), "", "after {made_first}");
    }
}

#[test]
fn a_request_to_a_server_whose_engine_does_not_come_up_is_finished() {
    let dir = TempDir::new().unwrap();
    let data_dir = dir.path().join("data");
    let server = Server::start(&data_dir);
    let key = server.credential("project_api_key");
    assert!(server.stop().success());
    let no_engine = dir.path().join("libchdb.so");
    std::fs::write(&no_engine, "no library").unwrap();
    let [ingest, health] = [free_address(), free_address()].map(|address| address.to_string());
    let mut child = on_addresses("serve", &data_dir, &ingest, &health)
        .arg("--libchdb")
        .arg(&no_engine)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stream = eventually("a listener", || TcpStream::connect(&ingest).ok());
    let body = json!({"api_key": key, "batch": [{"event": "slow", "distinct_id": "me"}]});
    let (body, length) = (body.to_string(), body.to_string().len());
    let head = format!("POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ready = format!("http://{health}/_health/ready");
    eventually("the beginning of the end", || {
        let (status, text) = get(&ready, &[]);
        (status == 503 && text.contains("shutdown")).then_some(())
    });
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let status = eventually("the server's end", || child.try_wait().unwrap());
    assert!(status.success(), "{status}");
    let server = Server::start(&data_dir);
    server.wait_for("SELECT event FROM millrace.events", "slow");
}

#[test]
fn nobody_waits_for_a_node_whose_first_start_failed() {
    let dir = TempDir::new().unwrap();
    let no_engine = dir.path().join("libchdb.so");
    let status = on_own_ports("serve", dir.path())
        .arg("--libchdb")
        .arg(&no_engine)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success());
    assert_eq!(states(dir.path()), [NodeState::Stopped]);
}

#[test]
fn nobody_waits_for_a_node_whose_start_failed_after_shipping_began() {
    let dir = TempDir::new().unwrap();
    // There, so that the first start does not write them; and where they are written anew is no file.
    std::fs::write(dir.path().join("credentials.json"), "{}").unwrap();
    std::fs::create_dir(dir.path().join("credentials.json.tmp")).unwrap();
    let ended = on_own_ports("ingest", dir.path())
        .args(["--clickhouse-url", "http://127.0.0.1:9"])
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success(), "{said}");
    assert!(
        said.contains("cannot write") && said.contains("credentials.json"),
        "{said}"
    );
    assert_eq!(states(dir.path()), [NodeState::Stopped]);
}

#[test]
fn a_node_that_the_catalog_cannot_note_stops_when_asked() {
    let dir = TempDir::new().unwrap();
    let database = TestDatabase::sqlite();
    let made = run(&["nodes", "list", "--database-url", database.url()]);
    assert!(made.status.success(), "{made:?}");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let hide = database.execute("ALTER TABLE ingest_nodes RENAME TO hidden_nodes");
    runtime.block_on(hide).unwrap();
    let mut child = on_own_ports("ingest", dir.path())
        .args(["--database-url", database.url()])
        .args(["--clickhouse-url", "http://127.0.0.1:9"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let waits = |line: String| line.contains("until the catalog has noted");
    assert!(lines.any(|line| waits(line.unwrap())));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let status = eventually("the server's end", || child.try_wait().unwrap());
    assert!(status.success(), "{status}");
}
