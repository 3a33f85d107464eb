//! Request smuggling: whatever is sent, the next request is answered for itself or not at all.

use super::vectors::{HIDDEN, Outcome, canary, exchange, sign, vectors};
use crate::test_env::TestEnv;
use std::net::TcpStream;
use std::time::Duration;

/// Time that a test waits before it fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Server that does not wait long for the rest of a body that never comes.
fn test_env() -> TestEnv {
    TestEnv::with(|options| {
        options.server.limits.body_stall_timeout = Duration::from_millis(300);
    })
}

fn connect(env: &TestEnv) -> TcpStream {
    let stream = TcpStream::connect(env.addr).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

/// Fault in the responses to a vector and a canary after it; `None` if there is none.
fn wrong(outcome: Outcome, answers: &str) -> Option<&'static str> {
    let head = |status| format!("HTTP/1.1 {status}");
    let count = |status| answers.matches(&head(status)).count();
    if answers.contains(&sign("hidden")) {
        return Some("what was hidden was answered");
    }
    // Status of the first response, and the number of responses.
    let (first, of_all) = match outcome {
        Outcome::Taken => ("200", 2),
        Outcome::Last => ("200", 1),
        Outcome::Refused => ("4", 1),
        Outcome::Dropped => ("", 0),
    };
    if of_all > 0 && !answers.starts_with(&head(first)) {
        return Some("it was not answered as it should be");
    }
    if count("2") + count("4") != of_all {
        return Some("there are not as many answers as there should be");
    }
    let canary = outcome == Outcome::Taken;
    (answers.contains(&sign("canary")) != canary).then_some("the next request fared otherwise")
}

#[test]
fn every_vector_is_framed_as_expected() {
    let env = test_env();
    let mut faults = Vec::new();
    for vector in vectors() {
        let answers = exchange(connect(&env), &[vector.bytes, canary("canary")].concat());
        if let Some(what) = wrong(vector.outcome, &answers) {
            faults.push(format!("{}: {what}: {answers:?}", vector.name));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_vector_behind_another_request_is_framed_as_expected() {
    let env = test_env();
    let ahead = |body: &str| format!("POST /flags HTTP/1.1\r\nHost: t\r\n{body}").into_bytes();
    let firsts = [
        ("a length", ahead("Content-Length: 2\r\n\r\n{}")),
        (
            "chunks",
            ahead("Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
        ),
        ("no body", b"GET / HTTP/1.1\r\nHost: t\r\n\r\n".to_vec()),
        (
            "a long body",
            ahead(&format!(
                "Content-Length: 200000\r\n\r\n{}",
                " ".repeat(200_000)
            )),
        ),
    ];
    let mut faults = Vec::new();
    for (first, bytes) in &firsts {
        for vector in vectors() {
            let all = [bytes.as_slice(), &vector.bytes, &canary("canary")].concat();
            let answers = exchange(connect(&env), &all);
            let second = answers.match_indices("HTTP/1.1 ").nth(1);
            let rest = &answers[second.map_or(answers.len(), |(at, _)| at)..];
            if let Some(what) = wrong(vector.outcome, rest) {
                faults.push(format!("{first}, then {}: {what}: {rest:?}", vector.name));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn an_ambiguous_head_is_refused_however_it_is_cut() {
    let env = test_env();
    let first = b"POST /flags HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let second = format!(
        "POST /flags HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}",
        HIDDEN.len()
    );
    // The first piece comes with the request before it, the rest when that has been answered.
    for cut in [1, 5, 20, 60, second.len() / 2] {
        let mut client = env.client();
        client.send(&[first, &second.as_bytes()[..cut]].concat());
        assert_eq!(client.read().status, 200);
        client.send(&second.as_bytes()[cut..]);
        let answer = client.read();
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "ambiguous_length"),
            "{cut}"
        );
        assert!(client.is_closed(), "{cut}");
    }
}
