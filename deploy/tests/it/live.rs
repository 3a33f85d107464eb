//! Live stream of the program: an event is shown as it is accepted, and once it is in ClickHouse.

use crate::server::Server;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;
use tempfile::TempDir;

/// Time that a test waits for a line before it fails.
const LONG: Duration = Duration::from_secs(120);

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
    loop {
        line.clear();
        let bytes = lines.read_line(&mut line).unwrap();
        assert!(bytes > 0, "the stream ended before {beginning:?}");
        if let Some(rest) = line.strip_prefix(beginning) {
            return rest.trim_end().to_owned();
        }
    }
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
