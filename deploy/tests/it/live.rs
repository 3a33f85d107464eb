//! Live stream of the program: an event is shown as it is accepted, and once it is in ClickHouse,
//! also where the API runs in another process than ingestion.

use crate::server::{Server, eventually, millrace};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

/// Time that a test waits for a line before it fails.
const LONG: Duration = Duration::from_secs(120);
/// Lines that a test reads before it fails: numbers come each second, so there is no silence.
const LINES_MAX: usize = 1_000;

/// Watches the first project as its owner.
fn watch(server: &Server) -> BufReader<TcpStream> {
    let url = server.credential("admin_url");
    let host = url.trim_start_matches("http://");
    let key = server.credential("personal_api_key");
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let path = "/api/projects/@current/live/";
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    BufReader::new(stream)
}

/// Reads to the next line with this beginning; returns what is behind that.
fn read_to(lines: &mut impl BufRead, beginning: &str) -> String {
    let mut line = String::new();
    for _ in 0..LINES_MAX {
        line.clear();
        let bytes = lines.read_line(&mut line).unwrap();
        assert!(bytes > 0, "the stream ended before {beginning:?}");
        if let Some(rest) = line.strip_prefix(beginning) {
            return rest.trim_end().to_owned();
        }
    }
    panic!("no line begins with {beginning:?}");
}

/// Reads to the next numbers of that many nodes, of which none is missing if there are any.
fn read_rate(lines: &mut impl BufRead, nodes: u32) {
    for _ in 0..LINES_MAX {
        read_to(lines, "event: rate");
        let rate = read_json(lines);
        if rate["nodes"] == nodes && (nodes == 0 || rate["nodes_missing"] == 0) {
            return;
        }
    }
    panic!("no numbers are those of {nodes} nodes");
}

fn read_json(lines: &mut impl BufRead) -> Value {
    serde_json::from_str(&read_to(lines, "data: ")).unwrap()
}

#[test]
fn an_event_is_shown_when_it_is_accepted_and_when_it_is_in_clickhouse() {
    let home = TempDir::new().unwrap();
    let server = Server::start(home.path());
    let mut lines = watch(&server);
    read_to(&mut lines, "retry: ");
    server.capture(&json!([{"event": "seen", "distinct_id": "ann"}]));
    read_to(&mut lines, "event: event");
    let id = read_to(&mut lines, "id: ");
    let event = read_json(&mut lines);
    assert_eq!(
        (&event["event"], &event["fate"]),
        (&json!("seen"), &json!("logged"))
    );
    read_to(&mut lines, "event: stored");
    assert_eq!(read_json(&mut lines), json!({ "ids": [id] }));
    let sql = "SELECT count() FROM millrace.events WHERE event = 'seen'";
    assert_eq!(server.query(sql), "1");
    // A stop does not wait for whoever watches.
    assert!(server.stop().success());
}

#[test]
fn events_of_other_processes_are_shown_by_their_endpoint() {
    let home = TempDir::new().unwrap();
    // Nothing listens there.
    let nowhere = ["--clickhouse-url", "http://127.0.0.1:9"];
    let args = [&nowhere[..], &["--node-addr", "127.0.0.1:0"]].concat();
    let mut ingest = Server::start_mode("ingest", home.path(), &args);
    let admin = Server::start_mode("admin", home.path(), &nowhere);
    let mut lines = eventually("the endpoint is known", || {
        let mut lines = watch(&admin);
        let status = read_to(&mut lines, "HTTP/1.1 ");
        status.starts_with("200").then_some(lines)
    });
    read_rate(&mut lines, 1);
    for name in ["first", "second"] {
        ingest.capture(&json!([{"event": name, "distinct_id": "ann"}]));
        read_to(&mut lines, "event: event");
        assert_eq!(read_json(&mut lines)["event"], name);
        if name == "first" {
            // The node comes back with another token, and the stream goes on.
            assert!(ingest.stop().success());
            ingest = Server::start_mode("ingest", home.path(), &args);
            // Numbers of before the stop are read first.
            for nodes in [0, 1] {
                read_rate(&mut lines, nodes);
            }
        }
    }
}

#[test]
fn tail_prints_a_line_of_json_for_each_message() {
    let home = TempDir::new().unwrap();
    let nowhere = ["--clickhouse-url", "http://127.0.0.1:9"];
    let server = Server::start_with(home.path(), &nowhere);
    let mut tail = millrace()
        .args(["tail", "--json", "--event", "wanted", "--data-dir"])
        .arg(home.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap());
    // The first numbers are told once the stream is open.
    read_to(&mut lines, r#"{"rate":"#);
    server.capture(&json!([
        {"event": "other", "distinct_id": "ann"},
        {"event": "wanted", "distinct_id": "ann"},
    ]));
    let event = read_to(&mut lines, r#"{"id":"#);
    assert!(event.contains(r#""event":"wanted""#), "{event}");
    tail.kill().unwrap();
    tail.wait().unwrap();
    let refused = millrace()
        .args(["tail", "--project", "99", "--data-dir"])
        .arg(home.path())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && error.contains("not_found"),
        "{error}"
    );
}
