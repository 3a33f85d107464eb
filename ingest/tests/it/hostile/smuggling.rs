//! Whatever is sent, the next request is answered for itself or not at all.

use super::vectors::{HIDDEN, Verdict, canary, exchange, sign, vectors};
use crate::stand::Stand;
use std::net::TcpStream;
use std::time::Duration;

/// How long a test waits before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that does not wait long for the rest of a body that never comes.
fn stand() -> Stand {
    Stand::with(|options| {
        options.server.limits.body_stall_timeout = Duration::from_millis(300);
    })
}

fn connect(stand: &Stand) -> TcpStream {
    let stream = TcpStream::connect(stand.addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What is wrong with the answers to a vector and a canary after it; `None` if nothing.
fn wrong(verdict: Verdict, answers: &str) -> Option<&'static str> {
    let head = |status| format!("HTTP/1.1 {status}");
    let count = |status| answers.matches(&head(status)).count();
    if answers.contains(&sign("hidden")) {
        return Some("what was hidden was answered");
    }
    // Statuses of the first answer, and how many answers there are.
    let (first, of_all) = match verdict {
        Verdict::Taken => ("200", 2),
        Verdict::Last => ("200", 1),
        Verdict::Refused => ("4", 1),
        Verdict::Dropped => ("", 0),
    };
    if of_all > 0 && !answers.starts_with(&head(first)) {
        return Some("it was not answered as it should be");
    }
    if count("2") + count("4") != of_all {
        return Some("there are not as many answers as there should be");
    }
    let canary = verdict == Verdict::Taken;
    (answers.contains(&sign("canary")) != canary).then_some("the next request fared otherwise")
}

#[test]
fn no_request_is_cut_otherwise_than_it_says() {
    let stand = stand();
    let mut faults = Vec::new();
    for vector in vectors() {
        let answers = exchange(connect(&stand), &[vector.bytes, canary("canary")].concat());
        if let Some(what) = wrong(vector.verdict, &answers) {
            faults.push(format!("{}: {what}: {answers:?}", vector.name));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_request_is_looked_at_as_closely_when_it_comes_behind_another() {
    let stand = stand();
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
            let answers = exchange(connect(&stand), &all);
            let second = answers.match_indices("HTTP/1.1 ").nth(1);
            let rest = &answers[second.map_or(answers.len(), |(at, _)| at)..];
            if let Some(what) = wrong(vector.verdict, rest) {
                faults.push(format!("{first}, then {}: {what}: {rest:?}", vector.name));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_head_is_looked_at_whole_however_it_is_cut() {
    let stand = stand();
    let first = b"POST /flags HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let second = format!(
        "POST /flags HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}",
        HIDDEN.len()
    );
    // The first piece comes with the request before it, the rest when that has been answered.
    for cut in [1, 5, 20, 60, second.len() / 2] {
        let mut client = stand.client();
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
