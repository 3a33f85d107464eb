//! Behaviour that only raw sockets show: slowness, smuggling, pipelining, half-closed peers.

use crate::client::{Client, request};
use crate::test_env::{TestEnv, batch};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(300);

fn hasty() -> TestEnv {
    TestEnv::with(|options| {
        options.wait_at_most(SHORT);
        options.server.limits.body_bytes_per_second_min = 10_000;
    })
}

#[test]
fn a_silent_connection_is_closed_without_a_response() {
    let env = hasty();
    assert!(env.client().is_closed());
}

#[test]
fn an_idle_connection_is_closed_without_a_response() {
    let env = hasty();
    let mut client = env.client();
    assert_eq!(
        client.post("/batch/", &[], batch(&["e"]).as_bytes()).status,
        200
    );
    assert!(client.is_closed());
}

#[test]
fn an_idle_connection_may_wait_longer_than_a_head() {
    let env = TestEnv::with(|options| {
        options.server.limits.header_timeout = SHORT;
        options.server.limits.idle_timeout = Duration::from_secs(60);
    });
    let mut idle = env.client();
    assert_eq!(
        idle.post("/batch/", &[], batch(&["e"]).as_bytes()).status,
        200
    );
    // Another connection's timeout shows that the time of a head has passed.
    assert!(env.client().is_closed());
    assert_eq!(
        idle.post("/batch/", &[], batch(&["e"]).as_bytes()).status,
        200
    );
}

#[test]
fn half_a_head_is_408_in_json() {
    let env = hasty();
    let mut client = env.client();
    client.send(b"POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-");
    let answer = client.read();
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (408, "request_timeout")
    );
    assert!(client.is_closed());
}

#[test]
fn a_body_that_stalls_or_trickles_is_408() {
    let env = hasty();
    let mut stalled = env.client();
    stalled.send(b"POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{");
    let answer = stalled.read();
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (408, "request_timeout")
    );
    assert_eq!(answer.header("connection"), Some("close"));

    let mut trickle = env.client();
    trickle.send(b"POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n{");
    let mut writer = trickle.try_clone();
    let feeder = std::thread::spawn(move || {
        // A byte well within every pause, until the server has had enough.
        while writer.send_one(b' ') {
            std::thread::park_timeout(SHORT / 10);
        }
    });
    assert_eq!(trickle.read().status, 408);
    trickle.finish();
    drop(trickle);
    feeder.join().unwrap();
}

/// Name, headers and code of ambiguous requests.
const AMBIGUOUS: [(&str, &str, &str); 13] = [
    (
        "Content-Length and Transfer-Encoding",
        "Host: t\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "ambiguous_length",
    ),
    (
        "the other way round",
        "Host: t\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "ambiguous_length",
    ),
    ("no Host", "Content-Length: 0\r\n", "invalid_host"),
    (
        "two Hosts",
        "Host: a\r\nHost: b\r\nContent-Length: 0\r\n",
        "invalid_host",
    ),
    (
        "a coding besides chunked",
        "Host: t\r\nTransfer-Encoding: gzip, chunked\r\n",
        "invalid_transfer_encoding",
    ),
    (
        "two Transfer-Encodings",
        "Host: t\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "invalid_transfer_encoding",
    ),
    (
        "an unknown coding",
        "Host: t\r\nTransfer-Encoding: xchunked\r\n",
        "malformed_request",
    ),
    (
        "two lengths",
        "Host: t\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
        "malformed_request",
    ),
    (
        "a list of lengths",
        "Host: t\r\nContent-Length: 5, 5\r\n",
        "malformed_request",
    ),
    (
        "a signed length",
        "Host: t\r\nContent-Length: +5\r\n",
        "malformed_request",
    ),
    (
        "a space before the colon",
        "Host: t\r\nContent-Length : 5\r\n",
        "malformed_request",
    ),
    (
        "a folded line",
        "Host: t\r\nX: a\r\n b\r\n",
        "malformed_request",
    ),
    ("a NUL", "Host: t\r\nX: a\0b\r\n", "malformed_request"),
];

#[test]
fn a_request_that_two_servers_could_read_differently_is_refused() {
    let env = TestEnv::start();
    for (what, headers, code) in AMBIGUOUS {
        let mut client = env.client();
        client.send(format!("POST /batch/ HTTP/1.1\r\n{headers}\r\n0\r\n\r\n").as_bytes());
        client.finish();
        let answer = client.read();
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, code),
            "{what}"
        );
        assert!(client.is_closed(), "{what}");
    }
}

#[test]
fn bytes_that_are_not_http_are_400_in_json() {
    let env = TestEnv::start();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"[..],
        b"HELLO\r\n\r\n",
    ] {
        let mut client = env.client();
        client.send(bytes);
        assert_eq!(client.read().code(), "malformed_request");
    }
}

#[test]
fn chunked_bodies_are_stored_and_broken_ones_are_not() {
    let env = TestEnv::start();
    let body = batch(&["chunked"]);
    let head = "POST /batch/ HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut client = env.client();
    for size in [1, 7, 100] {
        let mut text = head.to_owned();
        for chunk in body.as_bytes().chunks(size) {
            text += &format!(
                "{:x}\r\n{}\r\n",
                chunk.len(),
                std::str::from_utf8(chunk).unwrap()
            );
        }
        client.send(format!("{text}0\r\n\r\n").as_bytes());
        assert_eq!(client.read().status, 200, "{size}");
    }
    let mut broken = env.client();
    broken.send(format!("{head}{:x}\r\n{body}\r\nzz\r\n", body.len()).as_bytes());
    broken.finish();
    assert!(!broken.reads_success());
    assert_eq!(env.rows().events.len(), 3);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let env = TestEnv::start();
    let mut client = env.client();
    let names = ["a", "b", "c", "d"];
    let requests: Vec<u8> = names
        .iter()
        .flat_map(|name| request("POST", "/e/", &[], batch(&[name]).as_bytes()))
        .collect();
    client.send(&requests);
    for name in names {
        assert_eq!(client.read().status, 200, "{name}");
    }
    assert_eq!(env.rows().names(), names);
}

#[test]
fn a_client_that_shut_down_its_writing_side_still_gets_its_response() {
    let env = TestEnv::start();
    let mut client = env.client();
    client.send(&request("POST", "/e/", &[], batch(&["e"]).as_bytes()));
    client.finish();
    assert_eq!(client.read().status, 200);
    assert!(client.is_closed());
}

#[test]
fn a_cut_body_is_not_stored() {
    let env = TestEnv::start();
    let whole = request("POST", "/e/", &[], batch(&["cut"]).as_bytes());
    for len in [whole.len() - 1, whole.len() / 2] {
        let mut client = env.client();
        client.send(&whole[..len]);
        client.finish();
        assert!(!client.reads_success());
    }
    assert_eq!(env.post("/e/", batch(&["whole"])).status, 200);
    assert_eq!(env.rows().names(), ["whole"]);
}

#[test]
fn head_and_body_of_an_answer_leave_in_one_segment() {
    let env = TestEnv::start();
    let mut client = env.client();
    for _ in 0..20 {
        client.send(&request("POST", "/e/", &[], batch(&["e"]).as_bytes()));
        // With TCP_NODELAY, two writes would be two segments, and two reads.
        let first = client.read_once();
        let text = String::from_utf8(first).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        assert!(text.ends_with("\r\n\r\n{\"status\":\"Ok\"}"), "{text}");
    }
}

#[test]
fn a_second_server_on_the_same_port_is_refused() {
    let env = TestEnv::start();
    let error = env.rival().err().unwrap().to_string();
    assert!(error.contains("another process listens there"), "{error}");
    let addr = env.addr.to_string();
    assert!(error.contains(&addr), "{error}");
    assert_eq!(
        Client::connect(env.addr)
            .post("/e/", &[], batch(&["e"]).as_bytes())
            .status,
        200
    );
}
