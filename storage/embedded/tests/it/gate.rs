//! Tests of the gate over HTTP: what passes through it, and what it bounds.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use millrace_embedded::project_user;
use millrace_embedded::testing::{PASSWORD, TestEngine};

use crate::client::{Response, curl, machine_address, post, query};
use crate::users::change_users;

/// Longest wait for an answer, or for the end of a connection.
const DEADLINE: Duration = Duration::from_secs(90);

fn connect(engine: &TestEngine) -> TcpStream {
    let stream = TcpStream::connect(engine.url.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Head of a request by the user of an engine, without its end.
fn head(engine: &TestEngine, line: &str) -> String {
    let (user, password) = (&engine.user, &engine.password);
    format!(
        "{line} HTTP/1.1\r\nHost: ch\r\nX-ClickHouse-User: {user}\r\nX-ClickHouse-Key: {password}\r\n"
    )
}

/// Sends bytes and reads until the other side ends the connection.
fn exchange(engine: &TestEngine, sent: &str) -> String {
    let mut stream = connect(engine);
    stream.write_all(sent.as_bytes()).unwrap();
    let mut read = Vec::new();
    // One that is reset has ended, too.
    if let Err(error) = stream.read_to_end(&mut read) {
        assert_ne!(error.kind(), ErrorKind::WouldBlock, "still open");
    }
    String::from_utf8_lossy(&read).into_owned()
}

/// Headers that every connection, or every statement, has its own of.
const OWN_HEADERS: &[&str] = &[
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "transfer-encoding",
    "x-clickhouse-exception-tag",
    "x-clickhouse-query-id",
    "x-clickhouse-summary",
];

/// Status, headers and body of a response, as far as they do not depend on the connection.
fn comparable(response: &Response) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let headers = response.headers.iter();
    let headers = headers.filter(|(name, _)| !OWN_HEADERS.contains(&name.as_str()));
    let mut headers: Vec<_> = headers.cloned().collect();
    headers.sort();
    (response.status, headers, response.body.clone())
}

/// Parameters, further arguments of curl, and the body of a request.
type Case = (
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
    &'static str,
);

const REQUESTS: &[Case] = &[
    (&[("query", "SELECT 1")], &[], ""),
    (&[("query", "SELECT 1")], &["-I"], ""),
    (&[("query", "SELECT 1")], &["--http1.0"], ""),
    (&[("query", "SELECT 1 FORMAT Null")], &[], ""),
    (
        // Statistics have the time that the statement took.
        &[("output_format_write_statistics", "0")],
        &["--data-binary", "@-"],
        "SELECT 'a', 2 FORMAT JSON",
    ),
    (
        &[("query", "INSERT INTO default.gate FORMAT TSV")],
        &["-H", "Expect: 100-continue", "--data-binary", "@-"],
        "a\nb\n",
    ),
    (
        &[("query", "INSERT INTO default.gate FORMAT TSV")],
        &["-H", "Transfer-Encoding: chunked", "--data-binary", "@-"],
        "a\nb\n",
    ),
    (
        &[
            ("query", "SELECT number FROM numbers(10000)"),
            ("enable_http_compression", "1"),
        ],
        // The same rows may be compressed in other pieces.
        &["-H", "Accept-Encoding: gzip", "--compressed"],
        "",
    ),
    (
        &[("query", "SELECT number FROM numbers(300000) FORMAT CSV")],
        &[],
        "",
    ),
    (
        &[("query", "SELECT 1"), ("default_format", "JSONEachRow")],
        &["-H", "X-ClickHouse-Database: system"],
        "",
    ),
    (&[("query", "SELEC 1")], &[], ""),
    (&[("query", "SELECT 1"), ("user", "reader")], &[], ""),
    (&[("query", "SELECT 1")], &["-X", "OPTIONS"], ""),
    (&[("query", "SELECT 1")], &["-X", "DELETE"], ""),
];

#[test]
fn answers_are_those_of_the_engine() {
    let gate = TestEngine::start();
    let direct = gate.direct();
    query(&gate, "CREATE TABLE default.gate (a String) ENGINE = Null");
    let user = format!("X-ClickHouse-User: {}", gate.user);
    let key = format!("X-ClickHouse-Key: {}", gate.password);
    for (parameters, more, body) in REQUESTS {
        let arguments = [&["-H", user.as_str(), "-H", key.as_str()][..], *more].concat();
        let [passed, expected] = [&gate, &direct]
            .map(|engine| comparable(&curl(engine, parameters, &arguments, body.as_bytes())));
        assert_eq!(passed, expected, "{parameters:?} {more:?}");
    }
    for path in ["/ping", "/play", "/replicas_status", "/nowhere"] {
        let get = format!("GET {path}");
        let answer = |engine: &TestEngine| exchange(engine, &close(&head(engine, &get)));
        let [passed, expected] = [&gate, &direct].map(answer);
        let status = |text: &str| text.split(' ').nth(1).unwrap_or_default().to_owned();
        assert_eq!(status(&passed), status(&expected), "{path}");
        assert!(!passed.is_empty(), "{path}");
    }
}

/// Head of a request without a body, the last one of its connection.
fn close(head: &str) -> String {
    format!("{head}Connection: close\r\n\r\n")
}

#[test]
fn a_connection_has_several_requests_one_after_the_other_and_at_once() {
    let engine = TestEngine::start();
    let select = |number: u32| head(&engine, &format!("GET /?query=SELECT+{number}"));
    let mut stream = connect(&engine);
    for number in [11, 12] {
        let request = format!("{}\r\n", select(number));
        stream.write_all(request.as_bytes()).unwrap();
        let (mut read, mut piece) = (String::new(), [0; 4096]);
        let row = format!("\n{number}\n");
        while !read.contains(&row) {
            let count = stream.read(&mut piece).unwrap();
            assert_ne!(count, 0, "{read}");
            read += &String::from_utf8_lossy(&piece[..count]);
        }
    }
    let at_once = format!("{}\r\n{}", select(21), close(&select(22)));
    let text = exchange(&engine, &at_once);
    assert_eq!(text.matches("HTTP/1.1 200").count(), 2, "{text}");
    assert!(text.contains("\n21\n") && text.contains("\n22\n"), "{text}");
}

/// The engine has sent the head and most of the body when the statement fails.
#[test]
fn an_answer_that_breaks_off_ends_as_the_engine_ends_it() {
    let gate = TestEngine::start();
    let sql = "SELECT+throwIf(number=3000000),toString(number)+FROM+system.numbers\
        +SETTINGS+max_block_size=1000";
    let ends = [&gate, &gate.direct()].map(|engine| {
        let text = exchange(engine, &close(&head(engine, &format!("GET /?query={sql}"))));
        assert!(text.starts_with("HTTP/1.1 200"), "{}", &text[..100]);
        let rows = text.lines().filter(|line| line.starts_with("0\t")).count();
        assert!(rows >= 2_900_000, "{rows}");
        let tail = text.chars().rev().take(1_000).collect::<String>();
        let tail: String = tail.chars().rev().collect();
        assert!(tail.contains("Code: 395"), "{tail}");
        tail.ends_with("\r\n0\r\n\r\n")
    });
    assert_eq!(ends[0], ends[1], "an end of chunks");
}

#[test]
fn the_engine_knows_clients_of_a_proxy_by_their_addresses() {
    let engine = TestEngine::start();
    query(&engine, "CREATE DATABASE millrace");
    let own = format!("{}:{}", engine.user, engine.password);
    let reader = format!("reader:{PASSWORD}");
    for (login, forwarded, expected) in [
        (&own, "127.0.0.1", 200),
        (&own, "10.0.0.5, 127.0.0.1", 200),
        (&own, "10.0.0.5", 403),
        (&own, "127.0.0.1, 10.0.0.5", 403),
        (&own, "127.0.0.1, 2001:db8::1", 403),
        (&own, "unknown", 400),
        (&reader, "10.0.0.5", 200),
        (&reader, "2001:db8::1", 200),
    ] {
        let forwarded = format!("X-Forwarded-For: {forwarded}");
        let arguments = ["-u", login.as_str(), "-H", forwarded.as_str()];
        let select = [("query", "SELECT 1")];
        let response = curl(&engine, &select, &arguments, b"");
        let text = response.text();
        assert_eq!(response.status, expected, "{login} {forwarded}: {text}");
    }
    let usage = [("query", "SELECT DISTINCT quota_key FROM system.quota_usage")];
    let arguments = ["-u", reader.as_str(), "-H", "X-Forwarded-For: 10.0.0.7"];
    let key = curl(&engine, &usage, &arguments, b"").text();
    assert_eq!(key, "10.0.0.7\n", "each address has a quota of its own");
}

#[test]
fn strangers_are_known_by_their_addresses_whatever_they_say() {
    let Some(ip) = machine_address() else {
        eprintln!("NOT TESTED: this machine has loopback only");
        return;
    };
    let engine = TestEngine::start();
    let reader = engine.by("reader", PASSWORD);
    // To loopback from another address than that.
    let ip = ip.to_string();
    let from = ["--interface", ip.as_str()];
    let forwarded = ["-H", "X-Forwarded-For: 127.0.0.1"];
    for (user, expected) in [(&engine, 403), (&reader, 200)] {
        for more in [&[][..], &forwarded[..]] {
            let login = format!("{}:{}", user.user, user.password);
            let arguments = [&["-u", login.as_str()][..], &from[..], more].concat();
            let response = curl(&engine, &[("query", "SELECT 1")], &arguments, b"");
            let text = response.text();
            assert_eq!(response.status, expected, "{}: {more:?}: {text}", user.user);
        }
    }
    assert_eq!(query(&engine.direct(), "SELECT 1"), "1\n");
}

/// Commands use the address that the engine has, and proxies may.
#[test]
fn clients_of_the_machines_own_address_are_as_those_of_loopback() {
    let Some(ip) = machine_address() else {
        eprintln!("NOT TESTED: this machine has loopback only");
        return;
    };
    let engine = TestEngine::start_on(ip);
    let login = format!("{}:{}", engine.user, engine.password);
    for (forwarded, expected) in [
        (None, 200),
        (Some("127.0.0.1"), 200),
        (Some("10.0.0.5"), 403),
    ] {
        let header = forwarded.map(|address| format!("X-Forwarded-For: {address}"));
        let header = header.iter().flat_map(|header| ["-H", header.as_str()]);
        let arguments: Vec<_> = ["-u", login.as_str()].into_iter().chain(header).collect();
        let response = curl(&engine, &[("query", "SELECT 1")], &arguments, b"");
        let text = response.text();
        assert_eq!(response.status, expected, "{forwarded:?}: {text}");
    }
}

#[test]
fn answers_wait_for_the_end_of_their_statement_for_the_program_only() {
    let engine = TestEngine::start();
    let sql = b"SELECT throwIf(number = 3000000), toString(number) FROM numbers(4000000)";
    for (user, password, name, expected) in [
        ("reader", PASSWORD, "wait_end_of_query", 200),
        ("reader", PASSWORD, "Wait_End_Of_Query", 200),
        ("admin", PASSWORD, "wait_end_of_query", 200),
        (
            "millrace",
            engine.password.as_str(),
            "wait_end_of_query",
            500,
        ),
    ] {
        let response = post(&engine.by(user, password), &[(name, "1")], sql);
        assert_eq!(response.status, expected, "{user} {name}");
        assert!(response.text().contains("Code: 395"), "{user} {name}");
    }
}

/// Parameters by which the engine's page `/play` runs a statement, and fetches its answer again.
const PAGE: [&[(&str, &str)]; 2] = [
    &[
        ("add_http_cors_header", "1"),
        ("default_format", "JSONStringsEachRowWithProgress"),
        ("enable_http_compression", "1"),
        ("use_query_cache", "1"),
        ("enable_reads_from_query_cache", "0"),
        ("enable_writes_to_query_cache", "1"),
        ("query_cache_ttl", "600"),
        ("query_cache_nondeterministic_function_handling", "save"),
        ("query_cache_system_table_handling", "ignore"),
        ("extremes", "1"),
    ],
    &[
        ("add_http_cors_header", "1"),
        ("enable_http_compression", "1"),
        ("use_query_cache", "1"),
        ("enable_reads_from_query_cache", "1"),
        ("enable_writes_to_query_cache", "0"),
        ("query_cache_ttl", "600"),
        ("query_cache_nondeterministic_function_handling", "save"),
        ("query_cache_system_table_handling", "ignore"),
        ("default_format", "CSV"),
        (
            "http_response_headers",
            "{'Content-Disposition':'attachment'}",
        ),
    ],
];

/// Regression: no user may set all that the page sends, so each of its statements was refused.
#[test]
fn the_engines_page_works_for_every_user() {
    let engine = TestEngine::start();
    let text = exchange(&engine, &close(&head(&engine, "GET /play")));
    for (name, _) in PAGE.concat() {
        assert!(text.contains(name), "the page does not send {name}");
    }
    query(&engine, "CREATE DATABASE millrace");
    query(&engine, "CREATE DATABASE project");
    let project = change_users(&engine, |users| users.rotate(&project_user(1)));
    let own = engine.password.as_str();
    for (user, password) in [
        ("reader", PASSWORD),
        ("project", project.as_str()),
        ("admin", PASSWORD),
        ("millrace", own),
    ] {
        for parameters in PAGE {
            let login = [("user", user), ("password", password)];
            let parameters = [parameters, &login[..]].concat();
            let never = ["-H", "Authorization: never", "--data-binary", "@-"];
            let response = curl(&engine, &parameters, &never, b"SELECT 'answered' AS a");
            let text = response.text();
            assert_eq!(response.status, 200, "{user}: {text}");
            assert!(text.contains("answered"), "{user}: {text}");
        }
    }
}

/// Connections that got an answer without a password, and send nothing more.
#[test]
fn connections_that_wait_leave_room_for_others() {
    const CONNECTIONS: usize = 500;
    const WAITING_MAX: usize = 64;
    let engine = TestEngine::start();
    let ping = b"GET /ping HTTP/1.1\r\nHost: ch\r\n\r\n";
    let streams: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = connect(&engine);
            stream.write_all(ping).unwrap();
            stream
        })
        .collect();
    query(
        &engine,
        "CREATE TABLE default.rooms (a Int8) ENGINE = MergeTree ORDER BY a",
    );
    query(&engine.direct(), "INSERT INTO default.rooms VALUES (1)");
    assert_eq!(query(&engine, "SELECT a FROM default.rooms"), "1\n");
    let is_open = |stream: &TcpStream| {
        let mut stream = stream;
        stream.set_nonblocking(true).unwrap();
        let read = stream.read_to_end(&mut Vec::new());
        read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    let begun = Instant::now();
    loop {
        let open = streams.iter().filter(|stream| is_open(stream)).count();
        if open <= WAITING_MAX {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "{open} are open");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_head_has_ten_seconds() {
    let engine = TestEngine::start();
    let select = head(&engine, "GET /?query=SELECT+1");
    for begin in ["", "GET / HT", select.as_str()] {
        let begun = Instant::now();
        assert_eq!(exchange(&engine, begin), "", "{begin}");
        let took = begun.elapsed();
        let range = Duration::from_secs(9)..Duration::from_secs(25);
        assert!(range.contains(&took), "{begin}: {took:?}");
    }
}

/// Reads so many bytes a second, to the end of the connection.
fn read_slowly(mut stream: TcpStream, bytes: usize) {
    let mut piece = vec![0; bytes];
    while stream.read(&mut piece).is_ok_and(|count| count > 0) {
        thread::sleep(Duration::from_secs(1));
    }
}

/// Otherwise a statement would be held as long as its client likes, beyond its limit of time.
#[test]
fn a_client_that_reads_next_to_nothing_is_ended_but_not_the_program() {
    let engine = TestEngine::start();
    let reader = engine.by("reader", PASSWORD);
    let own = engine.by(&engine.user, &engine.password);
    let streams =
        [(&reader, "slow_reader", 1_000), (&own, "slow_own", 20_000)].map(|(user, mark, bytes)| {
            // Short rows: blocks of long ones, formatted at once, are more than a reader's memory.
            let sql = format!("SELECT+'{mark}',number+FROM+numbers(1000000000000)");
            let mut stream = connect(user);
            let request = close(&head(user, &format!("GET /?query={sql}")));
            stream.write_all(request.as_bytes()).unwrap();
            let slow = stream.try_clone().unwrap();
            thread::spawn(move || read_slowly(slow, bytes));
            stream
        });
    let running = |mark: &str| {
        let sql = format!(
            "SELECT count() FROM system.processes WHERE query LIKE '%{mark}%' AND query NOT LIKE '%processes%'"
        );
        query(&engine, &sql) == "1\n"
    };
    let begun = Instant::now();
    while !running("slow_reader") || !running("slow_own") {
        assert!(begun.elapsed() < DEADLINE, "it does not begin");
    }
    while running("slow_reader") {
        assert!(begun.elapsed() < DEADLINE, "it is still there");
    }
    assert!(begun.elapsed() > Duration::from_secs(25));
    assert!(running("slow_own"));
    for stream in streams {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
