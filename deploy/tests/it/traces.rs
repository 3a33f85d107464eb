//! Traces of a real server, as a collector receives them.

use crate::server::{Server, eventually, get, on_own_ports, warnings};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{SyncSender, sync_channel};
use tempfile::TempDir;

/// Reads one request of a connection: its first line and its body; `None` at the end.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, serde_json::from_slice(&body).unwrap()))
}

/// Collector that accepts everything: its address. What it receives goes to the channel.
fn collector(received: SyncSender<(String, Value)>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, received) = (stream.unwrap(), received.clone());
            std::thread::spawn(move || {
                let mut answers = stream.try_clone().unwrap();
                let mut reader = BufReader::new(stream);
                while let Some(request) = request(&mut reader) {
                    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
                    if answers.write_all(answer.as_bytes()).is_err()
                        || received.send(request).is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Posts an event and returns the id of the request.
fn traced_request(server: &Server) -> String {
    let body = json!({
        "api_key": server.credential("project_api_key"),
        "batch": [{ "event": "seen", "distinct_id": "ann" }],
    });
    let answer = ureq::post(format!("{}/batch/", server.credential("ingest_url")))
        .header("Content-Type", "application/json")
        .send(body.to_string())
        .unwrap();
    let id = answer.headers().get("x-request-id").unwrap();
    id.to_str().unwrap().replace('-', "")
}

#[test]
fn a_traced_request_has_spans_from_its_head_to_clickhouse() {
    let (sender, received) = sync_channel(1_000);
    let url = format!("http://{}/", collector(sender));
    let dir = TempDir::new().unwrap();
    let args = ["--otlp-url", &url, "--otlp-sampling-ratio", "1"];
    let server = Server::start_with(dir.path(), &args);
    server.wait_for_tables();
    let trace_id = traced_request(&server);
    // A probe is not traced.
    get(
        &format!("{}/_health/ready", server.credential("ingest_url")),
        &[],
    );
    let spans: Vec<Value> = eventually("the trace", || {
        let (head, body) = received.try_recv().ok()?;
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        assert!(
            head.to_lowercase()
                .contains("\r\ncontent-type: application/json\r\n")
        );
        let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        Some(spans.as_array().unwrap().clone())
    });
    assert!(
        spans.iter().all(|span| span["traceId"] == *trace_id),
        "{spans:?}"
    );
    let span = |name: &str| {
        let span = spans.iter().find(|span| span["name"] == name);
        span.unwrap_or_else(|| panic!("no {name} in {spans:?}"))
    };
    let nanos = |span: &Value, field: &str| span[field].as_str().unwrap().parse::<u64>().unwrap();
    let root = span("ingest /batch");
    for name in ["decode", "parse", "commit", "store"] {
        let stage = span(name);
        assert_eq!(stage["parentSpanId"], root["spanId"], "{name}");
        let (from, to) = ("startTimeUnixNano", "endTimeUnixNano");
        assert!(nanos(root, from) <= nanos(stage, from), "{name}");
        assert!(nanos(stage, from) <= nanos(stage, to), "{name}");
    }
    assert_eq!(server.query("SELECT count() FROM millrace.events"), "1");
    let attributes = root["attributes"].to_string();
    assert!(
        attributes.contains(r#""millrace.events","value":{"intValue":"1"}"#),
        "{attributes}"
    );
}

#[test]
fn a_collector_that_is_away_is_logged_once_and_holds_nothing_up() {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("stderr");
    let data = dir.path().join("data");
    let nobody = format!("http://{}", crate::server::free_address());
    let mut command = on_own_ports("serve", &data);
    command.args(["--otlp-url", &nobody, "--otlp-sampling-ratio", "1"]);
    command.stderr(File::create(&log).unwrap());
    let server = Server::start_command(&mut command, &data);
    server.wait_for_tables();
    for count in 1..=3 {
        traced_request(&server);
        eventually("the count of dropped traces", || {
            let dropped = server.metric("millrace_traces_dropped_total")?;
            (dropped >= f64::from(count)).then_some(())
        });
    }
    server.wait_for("SELECT count() FROM millrace.events", "3");
    let told = warnings(&log);
    assert_eq!(told.matches("traces are not sent").count(), 1, "{told}");
}
