//! SIGTERM stops a server cleanly, at any moment.

use crate::failed_starts::another_library;
use crate::nodes::{on_catalog, states};
use crate::server::{
    Server, eventually, free_address, get, on_addresses, on_own_ports, run, warnings,
};
use millrace_catalog::leases::{EXPORTS_LEASE, PERSONS_LEASE};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, NodeState};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

/// Files that a start creates, in this order.
const MADE: [&str; 7] = [
    "millrace.lock",
    "catalog.db",
    "first.key",
    "log",
    "node",
    "clickhouse",
    "credentials.json",
];
/// Starts for each file, as a moment lasts microseconds.
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
        // The file of the first key is removed once the credentials are written.
        let last = dir.path().join("credentials.json");
        eventually(made_first, || {
            (Path::exists(&path) || Path::exists(&last)).then_some(())
        });
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let status = eventually("the server's end", || child.try_wait().unwrap());
        assert!(status.success(), "after {made_first}: {status}");
        let left: Vec<_> = states(dir.path());
        assert!(
            left.iter().all(|state| *state == NodeState::Stopped),
            "after {made_first}: {left:?}"
        );
        assert_eq!(warnings(&log), "", "after {made_first}");
        if left.is_empty() {
            continue;
        }
        let data_dir = dir.path().to_str().unwrap();
        let listed = run(&["nodes", "list", "--data-dir", data_dir]);
        let listed = String::from_utf8(listed.stdout).unwrap();
        let is_left = ["starting", "running"].map(|state| listed.contains(&format!(" {state} ")));
        assert_eq!(is_left, [false; 2], "after {made_first}: {listed}");
    }
}

#[test]
fn a_server_that_still_reads_its_log_says_so_and_stops_at_once_when_asked() {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("stderr");
    let data_dir = dir.path().join("data");
    let [ingest, health] = [free_address(), free_address()].map(|address| address.to_string());
    let mut child = on_addresses("serve", &data_dir, &ingest, &health)
        .env("MILLRACE_FAIL_POINT", "recovery-read:1+stays")
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut stream = eventually("a listener", || TcpStream::connect(&ingest).ok());
    let head = "POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\n{}";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("\r\nretry-after: "), "{answer}");
    assert!(answer.contains(r#""code":"starting""#), "{answer}");
    let (status, text) = get(&format!("http://{health}/_health/ready"), &[]);
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("the log is still being read"), "{text}");
    assert_eq!(get(&format!("http://{health}/_health/live"), &[]).0, 200);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let status = eventually("the server's end", || child.try_wait().unwrap());
    assert!(status.success(), "{status}");
    assert_eq!(warnings(&log), "");
}

#[test]
fn a_request_to_a_server_whose_engine_does_not_come_up_is_finished() {
    let dir = TempDir::new().unwrap();
    let data_dir = dir.path().join("data");
    let server = Server::start(&data_dir);
    let key = server.credential("project_api_key");
    assert!(server.stop().success());
    // Another process has locked the engine's folder: the start is retried.
    let held = File::open(data_dir.join("clickhouse/millrace.lock")).unwrap();
    flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
    let [ingest, health] = [free_address(), free_address()].map(|address| address.to_string());
    let mut child = on_addresses("serve", &data_dir, &ingest, &health)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let ready = format!("http://{health}/_health/ready");
    eventually("a server that takes events", || {
        let listens = TcpStream::connect(&health).is_ok();
        (listens && get(&ready, &[]).0 == 200).then_some(())
    });
    let mut stream = TcpStream::connect(&ingest).unwrap();
    let body = json!({"api_key": key, "batch": [{"event": "slow", "distinct_id": "me"}]});
    let (body, length) = (body.to_string(), body.to_string().len());
    let head = format!("POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
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
    drop(held);
    let server = Server::start(&data_dir);
    server.wait_for("SELECT event FROM millrace.events", "slow");
}

/// Regression: it took the whole grace period, and the client got no response.
#[test]
fn a_client_that_stalls_does_not_hold_a_stop_up() {
    let dir = TempDir::new().unwrap();
    // Longer than the end is waited for.
    let server = Server::start_with(dir.path(), &["--grace-seconds", "600"]);
    let ingest = server.credential("ingest_url").replace("http://", "");
    let mut stream = TcpStream::connect(ingest).unwrap();
    let beginning = b"POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{";
    stream.write_all(beginning).unwrap();
    assert!(server.stop().success());
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("\r\nretry-after: "), "{answer}");
    assert!(answer.contains(r#""code":"shutting_down""#), "{answer}");
}

/// Regression: it changed nothing.
#[test]
fn a_second_signal_ends_the_waits_of_a_stop_and_loses_nothing() {
    // Longer than the end is waited for. Nothing listens there, so the event is not shipped.
    let ships = [
        "--grace-seconds",
        "600",
        "--clickhouse-url",
        "http://127.0.0.1:9",
    ];
    let table: [(&[&str], Signal); 3] = [
        (&["--drain-seconds", "600"], Signal::INT),
        (&ships, Signal::TERM),
        (&ships, Signal::INT),
    ];
    for (args, second) in table {
        let dir = TempDir::new().unwrap();
        let mut server = Server::start_with(dir.path(), args);
        server.capture(&json!([{"event": "kept", "distinct_id": "me"}]));
        let ready = format!("{}/_health/ready", server.credential("health_url"));
        kill_process(server.pid(), Signal::TERM).unwrap();
        eventually("the beginning of the end", || {
            let (status, text) = get(&ready, &[]);
            (status == 503 && text.contains("shutdown")).then_some(())
        });
        kill_process(server.pid(), second).unwrap();
        let status = server.wait();
        assert!(status.success(), "{args:?}, {second:?}: {status}");
        drop(server);
        let server = Server::start(dir.path());
        server.wait_for("SELECT event FROM millrace.events", "kept");
    }
}

/// Regression: they were said to be cut at the end of the grace period.
#[test]
fn connections_that_a_second_signal_cuts_are_logged_as_such() {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("stderr");
    let mut command = on_own_ports("ingest", dir.path());
    command.args(["--clickhouse-url", "http://127.0.0.1:9"]);
    command.args(["--drain-seconds", "600"]);
    command.stderr(File::create(&log).unwrap());
    let mut server = Server::start_command(&mut command, dir.path());
    let ingest = server.credential("ingest_url").replace("http://", "");
    let mut stream = TcpStream::connect(ingest).unwrap();
    let beginning = b"POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{";
    stream.write_all(beginning).unwrap();
    let ready = format!("{}/_health/ready", server.credential("health_url"));
    kill_process(server.pid(), Signal::TERM).unwrap();
    eventually("the beginning of the end", || {
        let (status, text) = get(&ready, &[]);
        (status == 503 && text.contains("shutdown")).then_some(())
    });
    kill_process(server.pid(), Signal::TERM).unwrap();
    assert!(server.wait().success());
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("cut as the stop was cut short"), "{said}");
    assert!(!said.contains("grace period"), "{said}");
}

/// Regression: it held them, and asked for free ones, until its requests were finished.
#[test]
fn a_server_that_stops_gives_its_leases_up_at_once() {
    const LEASES: [(&str, &str); 2] = [
        (EXPORTS_LEASE, "millrace_export_leader"),
        (PERSONS_LEASE, "millrace_person_leader"),
    ];
    let dir = TempDir::new().unwrap();
    // It does not end before the test.
    let server = Server::start_with(dir.path(), &["--drain-seconds", "600"]);
    for (lease, metric) in LEASES {
        eventually(lease, || (server.metric(metric) == Some(1.0)).then_some(()));
    }
    kill_process(server.pid(), Signal::TERM).unwrap();
    let (another, time) = (Uuid::new_v4(), Duration::from_secs(3_600));
    for (lease, metric) in LEASES {
        eventually(lease, || {
            let held = on_catalog(dir.path(), async |catalog| {
                catalog.hold_lease(lease, another, time).await
            });
            held.unwrap().then_some(())
        });
        // Told just after the lease was given up.
        eventually(metric, || {
            (server.metric(metric) == Some(0.0)).then_some(())
        });
    }
    let ready = format!("{}/_health/ready", server.credential("health_url"));
    let (status, text) = get(&ready, &[]);
    assert!(status == 503 && text.contains("shutdown"), "{text}");
}

#[test]
fn a_node_whose_first_start_failed_is_deregistered() {
    let dir = TempDir::new().unwrap();
    let status = on_own_ports("serve", dir.path())
        .arg("--libchdb")
        .arg(another_library())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success());
    assert_eq!(states(dir.path()), [NodeState::Stopped]);
    let _works = Server::start(dir.path());
}

#[test]
fn a_node_whose_start_failed_after_shipping_began_is_deregistered() {
    let dir = TempDir::new().unwrap();
    // The file exists, so that the first start does not write it; its temporary file is a folder.
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
fn a_node_waiting_for_registration_stops_when_asked() {
    let dir = TempDir::new().unwrap();
    let database = TestDatabase::sqlite();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let made = Catalog::open(database.url()).await.unwrap();
        made.close().await.unwrap();
    });
    let hide = database.execute("ALTER TABLE ingest_nodes RENAME TO hidden_nodes");
    runtime.block_on(hide).unwrap();
    let mut child = on_own_ports("ingest", dir.path())
        .args(["--database-url", database.url()])
        .args(["--clickhouse-url", "http://127.0.0.1:9"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let waits = |line: String| line.contains("until the catalog has recorded");
    assert!(lines.any(|line| waits(line.unwrap())));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let status = eventually("the server's end", || child.try_wait().unwrap());
    assert!(status.success(), "{status}");
}

#[test]
fn a_node_deregisters_in_a_busy_catalog() {
    /// Longer than a deregistration takes, and less than the grace period and SQLite's timeout.
    const BUSY: Duration = Duration::from_secs(4);
    let dir = TempDir::new().unwrap();
    let database = TestDatabase::sqlite();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let args = [
        ["--database-url", database.url()],
        ["--clickhouse-url", "http://127.0.0.1:9"],
    ];
    let log = dir.path().join("stderr");
    let mut child = on_own_ports("ingest", dir.path())
        .args(args.concat())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let credentials = dir.path().join("credentials.json");
    eventually("a start", || Path::exists(&credentials).then_some(()));
    let held = runtime.block_on(database.lock_sqlite()).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    eventually("the beginning of the end", || {
        let said = std::fs::read_to_string(&log).unwrap();
        said.contains("stopping").then_some(())
    });
    std::thread::sleep(BUSY);
    runtime.block_on(async { drop(held) });
    let status = eventually("the server's end", || child.try_wait().unwrap());
    assert!(status.success(), "{status}");
    let state = runtime.block_on(database.first_column("SELECT state FROM ingest_nodes"));
    assert_eq!(state.unwrap(), ["stopped"]);
}

#[test]
fn credentials_are_written_once_and_atomically() {
    let dir = TempDir::new().unwrap();
    let data_dir = dir.path().join("data");
    // A start that is cut off when the catalog has the first key, and the file does not.
    let ended = on_own_ports("serve", &data_dir)
        .arg("--libchdb")
        .arg(another_library())
        .output()
        .unwrap();
    assert!(!ended.status.success());
    let path = data_dir.join("credentials.json");
    assert!(!path.exists());
    let mut child = on_own_ports("serve", &data_dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // From its creation until the banner.
    let first = eventually("the file", || std::fs::read_to_string(&path).ok());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("Press Ctrl-C")));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), first);
    let credentials: Value = serde_json::from_str(&first).unwrap();
    for (name, value) in credentials.as_object().unwrap() {
        assert!(
            !["\"\"", "0", "null"].contains(&&*value.to_string()),
            "{name}: {value}"
        );
    }
    assert!(!data_dir.join("first.key").exists());
    let text = |name: &str| credentials[name].as_str().unwrap();
    let url = format!("{}/api/organizations/", text("admin_url"));
    let bearer = format!("Bearer {}", text("personal_api_key"));
    assert_eq!(get(&url, &[("authorization", bearer.as_str())]).0, 200);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let status = eventually("the server's end", || child.try_wait().unwrap());
    assert!(status.success(), "{status}");
}
