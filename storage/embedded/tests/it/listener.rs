//! Tests of the resources that a client without a password can use: connections, request heads,
//! bodies; and of answers that one with the password does not read.

use millrace_embedded::testing::TestEngine;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::client::query;

/// More connections than the process keeps open.
const MANY: usize = 300;
/// Most unauthenticated connections of one address.
const UNAUTHENTICATED_MAX: usize = 64;
/// Time within which a request's head must arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest request head, bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Limit of the memory for all unfinished heads and for other growth of the process meanwhile, kB.
const GROWTH_KB_MAX: u64 = 48 << 10;

/// Answers of 60 MB that are not read.
const UNREAD: usize = 16;
/// Limit of the memory for all of them, kB: 256 MiB are held, and the engine works on the others.
const UNREAD_KB_MAX: u64 = 512 << 10;

fn connect(engine: &TestEngine) -> TcpStream {
    let stream = TcpStream::connect(engine.url.strip_prefix("http://").unwrap()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream
}

fn resident_kb(engine: &TestEngine) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", engine.pid().unwrap())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let open = matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    open
}

#[test]
fn unfinished_heads_are_limited_in_number_size_and_time() {
    let engine = TestEngine::start();
    query(&engine, "SELECT 1");
    let before = resident_kb(&engine);
    let begun = Instant::now();
    let head = format!("GET /?query={}", "x".repeat(HEAD_BYTES_MAX - 1_000));
    let mut open_streams: Vec<_> = (0..MANY)
        .map(|_| {
            let mut stream = connect(&engine);
            // The server may close it while it is written.
            let _ = stream.write_all(head.as_bytes());
            stream
        })
        .collect();
    // A client with the password gets in meanwhile.
    assert_eq!(query(&engine, "SELECT 2"), "2\n");
    // Long before the heads time out.
    let soon = Instant::now() + HEAD_TIMEOUT / 2;
    let open = || open_streams.iter().filter(|stream| is_open(stream)).count();
    while open() > UNAUTHENTICATED_MAX && Instant::now() < soon {
        std::thread::sleep(Duration::from_millis(20));
    }
    let open = open();
    let grown = resident_kb(&engine).saturating_sub(before);
    assert!(open <= UNAUTHENTICATED_MAX, "{open} are open");
    assert!(grown < GROWTH_KB_MAX, "{MANY} heads take {grown} kB");
    // The others are closed in time, with or without a response.
    for stream in &mut open_streams {
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let lasted = begun.elapsed();
    assert!(
        lasted < Duration::from_secs(30),
        "the last head was waited for for {lasted:?}"
    );
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    let engine = TestEngine::start();
    let mut stream = connect(&engine);
    let _ = write!(
        stream,
        "GET /?query={} HTTP/1.1\r\nHost: a\r\n\r\n",
        "x".repeat(2 * HEAD_BYTES_MAX)
    );
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response);
    assert!(!response.starts_with("HTTP/1.1 200"), "{response}");
    assert_eq!(query(&engine, "SELECT 1"), "1\n");
}

#[test]
fn no_body_is_buffered_before_authentication() {
    let engine = TestEngine::start();
    query(&engine, "SELECT 1");
    let before = resident_kb(&engine);
    let open_streams: Vec<_> = (0..UNAUTHENTICATED_MAX)
        .map(|_| {
            let mut stream = connect(&engine);
            write!(
                stream,
                "POST /?query=SELECT+1 HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n"
            )
            .unwrap();
            let mut status = [0; 12];
            stream.read_exact(&mut status).unwrap();
            assert_eq!(&status, b"HTTP/1.1 401", "it is answered before the body");
            stream
                .set_write_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            let _ = stream.write_all(&vec![b'x'; 4 << 20]);
            stream
        })
        .collect();
    let grown = resident_kb(&engine).saturating_sub(before);
    assert!(
        grown < GROWTH_KB_MAX,
        "{} bodies take {grown} kB",
        open_streams.len()
    );
}

/// Ends of a connection, the server's first, as `/proc` writes them.
fn ends(stream: &TcpStream) -> [String; 2] {
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    [
        port(stream.peer_addr().unwrap()),
        port(stream.local_addr().unwrap()),
    ]
}

/// Returns true if the server has not closed its end of the connection.
fn is_established([server, client]: &[String; 2]) -> bool {
    let sockets = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    sockets.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields[1].ends_with(server) && fields[2].ends_with(client) && fields[3] == "01"
    })
}

#[test]
fn unread_answers_are_limited_in_memory_and_time() {
    let engine = TestEngine::start();
    query(&engine, "SELECT 1");
    let before = resident_kb(&engine);
    let sql = "SELECT+repeat(%27x%27,1000)+FROM+numbers(60000)";
    let settings = "wait_end_of_query=1&http_send_timeout=10&max_threads=1&max_block_size=1000\
                    &output_format_parallel_formatting=0";
    let head = format!(
        "GET /?query={sql}&{settings} HTTP/1.1\r\nHost: a\r\n\
         X-ClickHouse-User: {}\r\nX-ClickHouse-Key: {}\r\n\r\n",
        engine.user, engine.password
    );
    let streams: Vec<_> = (0..UNREAD)
        .map(|_| {
            let mut stream = connect(&engine);
            stream.write_all(head.as_bytes()).unwrap();
            let mut status = [0; 12];
            stream.read_exact(&mut status).unwrap();
            assert_eq!(&status, b"HTTP/1.1 200", "it is held, or streamed");
            stream
        })
        .collect();
    let grown = resident_kb(&engine).saturating_sub(before);
    assert!(grown < UNREAD_KB_MAX, "{UNREAD} answers take {grown} kB");
    let open: Vec<_> = streams.iter().map(ends).collect();
    // Long after the clients' own limit.
    let soon = Instant::now() + Duration::from_secs(60);
    while open.iter().any(is_established) && Instant::now() < soon {
        std::thread::sleep(Duration::from_millis(20));
    }
    let open = open.iter().filter(|ends| is_established(ends)).count();
    assert_eq!(open, 0, "connections that read nothing");
    assert_eq!(query(&engine, "SELECT 2"), "2\n");
}
