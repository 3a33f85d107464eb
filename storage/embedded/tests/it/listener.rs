//! Tests of clients without a password: what they send ends their connection and nothing else. The
//! gate takes most of it; whoever is on this machine finds the engine itself.

use millrace_embedded::testing::TestEngine;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::client::query;

/// Requests that are none, or end too early.
const HOSTILE: &[&[u8]] = &[
    b"",
    b"\x00\x01\x02garbage\r\n\r\n",
    b"GET /?query=select HTTP/1.1\r\nHo",
    b"FOO / HTTP/9.9\r\n\r\n",
    b"GET http://[::x HTTP/1.1\r\n\r\n",
    b"GET /?query=select+1 HTTP/1.1\r\nAuthorization: Basic !!!\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZZZ\r\n",
    b"POST /?decompress=1 HTTP/1.1\r\nContent-Length: 9\r\n\r\nxxxxxxxxx",
    b"POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\nxxxxxxxxx",
    b"POST / HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 9\r\n\r\n--x\r\na: b",
];
/// Heads that are never finished.
const IDLE_HEADS: usize = 300;
/// Limit of the memory for them and for other growth of the process meanwhile, kB.
const GROWTH_KB_MAX: u64 = 96 << 10;

fn connect(engine: &TestEngine) -> TcpStream {
    let stream = TcpStream::connect(engine.url.trim_start_matches("http://")).unwrap();
    let timeout = Some(Duration::from_secs(5));
    stream.set_read_timeout(timeout).unwrap();
    stream
}

fn resident_kb(engine: &TestEngine) -> u64 {
    let path = format!("/proc/{}/status", engine.pid().unwrap());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.unwrap().trim().trim_end_matches(" kB");
    kb.parse().unwrap()
}

/// Without a terminal the engine would abort at the first of them.
#[test]
fn requests_that_are_no_http_end_their_connection_only() {
    let gate = TestEngine::start();
    for engine in [&gate, &gate.direct()] {
        send_hostile(engine);
    }
}

fn send_hostile(engine: &TestEngine) {
    for request in HOSTILE {
        for reads in [true, false] {
            let mut stream = connect(engine);
            let _ = stream.write_all(request);
            if reads {
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = stream.read_to_end(&mut Vec::new());
            }
        }
        let shown = String::from_utf8_lossy(request);
        assert_eq!(query(engine, "SELECT 1"), "1\n", "after {shown}");
    }
    // Long heads of all kinds.
    for head in [
        "X: ".to_owned() + &"a".repeat(2 << 20),
        "a: b\r\n".repeat(5_000),
    ] {
        let mut stream = connect(engine);
        let _ = write!(stream, "GET / HTTP/1.1\r\n{head}\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
        assert_eq!(query(engine, "SELECT 1"), "1\n");
    }
}

#[test]
fn hundreds_of_unfinished_heads_leave_room_for_others() {
    let engine = TestEngine::start();
    query(&engine, "SELECT 1");
    let before = resident_kb(&engine);
    let head = format!("GET /?query={}", "x".repeat(8_000));
    let streams: Vec<_> = (0..IDLE_HEADS)
        .map(|_| {
            let mut stream = connect(&engine);
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_eq!(query(&engine, "SELECT 2"), "2\n");
    let grown = resident_kb(&engine).saturating_sub(before);
    assert!(
        grown < GROWTH_KB_MAX,
        "{} heads take {grown} kB",
        streams.len()
    );
}
