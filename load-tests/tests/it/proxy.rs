//! Faults of the proxy, seen from both of its ends.

use crate::server::Server;
use millrace_load::Stop;
use millrace_load::baseline::Work;
use millrace_load::proxy::{Proxy, Step};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

/// Query strings of an insert and of a query, as the server under test sends them.
const INSERT: &str = "/?query=INSERT+INTO+t+FORMAT+RowBinary&decompress=1";
const QUESTION: &str = "/";
const BODY: [u8; 10_000] = [b'x'; 10_000];

const OK: &str = "HTTP/1.1 200 OK";

fn proxy(upstream: &Server) -> Proxy {
    Proxy::start(SocketAddr::from(([127, 0, 0, 1], 0)), &upstream.url).unwrap()
}

fn send(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = BODY.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    // A proxy that cuts early need not read all of the request.
    let _ = stream.write_all(&[head.as_bytes(), &BODY].concat());
    stream
}

/// Reads until the connection ends.
fn read(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    match stream.read_to_end(&mut text) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => String::from_utf8(text).unwrap(),
    }
}

fn ask(proxy: &Proxy, path: &str) -> String {
    read(send(proxy.address(), path))
}

#[test]
fn without_a_rule_everything_is_passed_through() {
    let upstream = Server::start(Work::Drain);
    let proxy = proxy(&upstream);
    for path in [INSERT, QUESTION] {
        let answer = ask(&proxy, path);
        assert!(answer.starts_with(OK), "{answer}");
        assert!(answer.ends_with("{\"status\":\"Ok\"}"), "{answer}");
    }
    assert_eq!((upstream.requests(), upstream.body_bytes()), (2, 20_000));
    let counts = proxy.counts();
    let seen = [
        counts.connections,
        counts.requests,
        counts.inserts,
        counts.faults,
    ];
    assert_eq!(seen, [2, 2, 1, 0]);
}

#[test]
fn each_fault_has_its_documented_effect() {
    // Each rule with the beginning and end of the client's response, and whether the request was
    // carried out.
    let exception = "Code: 252. DB::Exception: injected. (TOO_MANY_PARTS)\n";
    let table = [
        ("slow=1ms", OK, "{\"status\":\"Ok\"}", true),
        (
            "answer=503",
            "HTTP/1.1 503 Service Unavailable",
            "\r\n\r\n",
            false,
        ),
        ("answer=500:252", "HTTP/1.1 500 Internal", exception, false),
        ("answer=200:241", OK, "\r\n\r\n", false),
        (
            "after=504",
            "HTTP/1.1 504 Gateway Timeout",
            "\r\n\r\n",
            true,
        ),
        ("after=200:241", OK, "\r\n\r\n", true),
        ("lost", "", "", true),
        ("cut-answer=12", "HTTP/1.1 200", "HTTP/1.1 200", true),
        ("cut-request", "", "", false),
        ("with=readonly=1", OK, "{\"status\":\"Ok\"}", true),
    ];
    for (rule, begin, end, is_carried_out) in table {
        let upstream = Server::start(Work::Drain);
        let proxy = proxy(&upstream);
        proxy.set(rule.parse().unwrap());
        let answer = ask(&proxy, INSERT);
        assert!(
            answer.starts_with(begin)
                && answer.ends_with(end)
                && begin.is_empty() == answer.is_empty(),
            "{rule}: {answer}"
        );
        let code = answer.contains("x-clickhouse-exception-code: ");
        assert_eq!(code, rule.contains(':'), "{rule}: {answer}");
        let whole = upstream.body_bytes() == BODY.len() as u64;
        assert_eq!(whole, is_carried_out, "{rule}");
        assert_eq!(proxy.counts().faults, 1, "{rule}");
        proxy.lift();
        assert!(ask(&proxy, INSERT).starts_with(OK), "{rule}");
        assert_eq!(proxy.counts().faults, 1, "{rule}");
    }
}

#[test]
fn a_stale_answer_is_the_first_genuine_one_of_its_kind_since_the_rule_was_set() {
    let upstream = Server::start(Work::Drain);
    let proxy = proxy(&upstream);
    proxy.set("stale-answer".parse().unwrap());
    // Requests that were carried out, and faults, after each.
    for (path, expected) in [
        (INSERT, (1, 0)),
        (QUESTION, (2, 0)),
        (INSERT, (2, 1)),
        (QUESTION, (2, 2)),
        (QUESTION, (2, 3)),
    ] {
        let answer = ask(&proxy, path);
        assert!(answer.starts_with(OK), "{answer}");
        assert!(answer.ends_with("{\"status\":\"Ok\"}"), "{answer}");
        assert_eq!((upstream.requests(), proxy.counts().faults), expected);
    }
    proxy.set("stale-answer inserts".parse().unwrap());
    for expected in [(3, 3), (3, 4)] {
        ask(&proxy, INSERT);
        assert_eq!((upstream.requests(), proxy.counts().faults), expected);
    }
}

#[test]
fn a_held_response_ends_with_its_fault() {
    for (rule, is_carried_out) in [("silent", true), ("deaf", false)] {
        let upstream = Server::start(Work::Drain);
        let proxy = proxy(&upstream);
        proxy.set(rule.parse().unwrap());
        let stream = send(proxy.address(), INSERT);
        while proxy.counts().faults == 0 {
            std::thread::yield_now();
        }
        assert_eq!(upstream.requests() == 1, is_carried_out, "{rule}");
        proxy.lift();
        assert_eq!(read(stream), "", "{rule}");
    }
}

#[test]
fn a_proxy_that_is_down_refuses_and_cuts_and_then_listens_on_its_port_again() {
    let upstream = Server::start(Work::Drain);
    let proxy = proxy(&upstream);
    for _ in 0..3 {
        let mut idle = TcpStream::connect(proxy.address()).unwrap();
        proxy.set("down".parse().unwrap());
        assert_eq!(idle.read(&mut [0]).unwrap_or(0), 0, "cut");
        let refused = loop {
            // The listener closes before or after the connections; a connection waiting to be
            // accepted at that moment is cut.
            match TcpStream::connect(proxy.address()) {
                Err(error) if error.kind() != ErrorKind::ConnectionReset => break error,
                _ => std::thread::yield_now(),
            }
        };
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        proxy.lift();
        while TcpStream::connect(proxy.address()).is_err() {
            std::thread::yield_now();
        }
        assert!(ask(&proxy, QUESTION).starts_with(OK));
    }
}

#[test]
fn a_rule_is_for_its_kind_of_requests_and_for_every_nth() {
    let upstream = Server::start(Work::Drain);
    let proxy = proxy(&upstream);
    let is_harmed = |path| !ask(&proxy, path).starts_with(OK);
    for (rule, path, harmed) in [
        ("answer=500", INSERT, [true; 4]),
        ("answer=500 inserts", QUESTION, [false; 4]),
        ("answer=500 questions", QUESTION, [true; 4]),
        ("answer=500 questions", INSERT, [false; 4]),
        ("answer=500 inserts 1/2", INSERT, [true, false, true, false]),
        ("answer=500 1/3", QUESTION, [true, false, false, true]),
    ] {
        proxy.set(rule.parse().unwrap());
        assert_eq!([path; 4].map(is_harmed), harmed, "{rule} of {path}");
    }
}

#[test]
fn an_unreachable_clickhouse_cuts_the_connection() {
    let upstream = Server::start(Work::Drain);
    let proxy = proxy(&upstream);
    drop(upstream);
    assert_eq!(ask(&proxy, QUESTION), "");
}

#[test]
fn a_script_performs_its_steps_and_then_lets_everything_through() {
    let upstream = Server::start(Work::Drain);
    let proxy = proxy(&upstream);
    let steps: Vec<Step> = ["1ms ok", "1ms answer=500", "1ms lost"]
        .map(|step| step.parse().unwrap())
        .into();
    let mut told = Vec::new();
    proxy.perform(&steps, &Stop::default(), &mut |step| {
        told.push(step.clone());
    });
    assert_eq!(told, steps);
    assert!(ask(&proxy, QUESTION).starts_with(OK));
    let stop = Stop::default();
    let forever = ["1000h answer=500", "1ms ok"].map(|step| step.parse().unwrap());
    proxy.perform(&forever, &stop, &mut |_| stop.ask());
    assert!(ask(&proxy, QUESTION).starts_with(OK), "stopped early");
}

#[test]
fn the_program_performs_its_steps_until_interrupted() {
    let upstream = Server::start(Work::Drain);
    let mut child = Command::new(env!("CARGO_BIN_EXE_millrace-load"))
        .args([
            "proxy",
            "--listen",
            "127.0.0.1:0",
            "--upstream",
            &upstream.url,
        ])
        .args(["--step", "1000h answer=503"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut text = String::new();
    let mut stdout = child.stdout.take().unwrap();
    while !text.contains("answer=503\n") {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
    }
    let address = text.lines().next().unwrap().rsplit_once('/').unwrap().1;
    let answer = read(send(address.parse().unwrap(), QUESTION));
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
    stdout.read_to_string(&mut text).unwrap();
    assert!(
        text.contains("1 request, 0 of them inserts; harm was done to 1"),
        "{text}"
    );
    assert_eq!(upstream.requests(), 0);
}
