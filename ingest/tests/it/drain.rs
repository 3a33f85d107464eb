//! A shutdown finishes the requests that have begun, and waits for no client that stalls.

use crate::client::request;
use crate::test_env::{TestEnv, batch};
use std::time::{Duration, Instant};

/// Grace period that no test waits for.
const LONG_GRACE: Duration = Duration::from_secs(300);
/// Time that a stop takes at most on a busy machine, if it waits for nobody.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_request_in_flight_is_finished_and_told_to_close() {
    // Silent until the idle connection is closed.
    let mut env = TestEnv::with(|options| options.server.limits.stop_stall_timeout = SOON);
    let whole = request("POST", "/e/", &[], batch(&["last"]).as_bytes());
    let mut idle = env.client();
    assert_eq!(
        idle.post("/e/", &[], batch(&["first"]).as_bytes()).status,
        200
    );
    let mut client = env.client();
    client.send(&whole[..whole.len() - 5]);
    // The idle connection's end shows that the drain has begun.
    env.stop();
    assert!(idle.is_closed());
    client.send(&whole[whole.len() - 5..]);
    let answer = client.read();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("connection"), Some("close"));
    env.join();
    assert_eq!(env.rows().names(), ["first", "last"]);
    assert!(std::net::TcpStream::connect(env.addr).is_err());
}

#[test]
fn a_drain_ends_with_the_grace_period() {
    let mut env = TestEnv::with(|options| {
        options.server.grace = Duration::from_millis(200);
    });
    let mut client = env.client();
    client.send(b"POST /e/ HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{");
    let mut idle = env.client();
    assert_eq!(idle.post("/e/", &[], batch(&["e"]).as_bytes()).status, 200);
    env.join();
    assert!(client.is_closed());
}

#[test]
fn requests_during_the_drain_are_served_with_connection_close() {
    let mut env = TestEnv::with(|options| {
        options.server.drain = Duration::from_secs(5);
    });
    let mut idle = env.client();
    let event = batch(&["e"]);
    assert_eq!(idle.post("/e/", &[], event.as_bytes()).status, 200);
    env.stop();
    let ready = |env: &TestEnv| {
        let mut probe = env.client();
        probe.request("GET", "/_health/ready", &[], b"").status
    };
    while ready(&env) == 200 {}
    assert_eq!(ready(&env), 503);
    for mut client in [idle, env.client()] {
        let answer = client.post("/e/", &[], event.as_bytes());
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(client.is_closed());
    }
    env.join();
    assert!(std::net::TcpStream::connect(env.addr).is_err());
}

/// Regression: each took the whole grace period, and its client got no response.
#[test]
fn a_client_that_stalls_gets_503_and_does_not_hold_a_stop_up() {
    let mut env = TestEnv::with(|options| options.server.grace = LONG_GRACE);
    let whole = request("POST", "/e/", &[], batch(&["stalls"]).as_bytes());
    let head_end = whole.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
    let chunked = b"POST /e/ HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{";
    let unread = b"POST /s/ HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\n1";
    let kinds: [(&str, &[u8]); 6] = [
        ("half a request line", b"POST /ba"),
        ("half a head", &whole[..head_end - 3]),
        ("a head alone", &whole[..head_end]),
        ("half a body", &whole[..head_end + 20]),
        ("half a chunk", chunked),
        ("half a body that is not stored", unread),
    ];
    let stalled = kinds.map(|(kind, bytes)| {
        let mut client = env.client();
        client.send(bytes);
        (kind, client)
    });
    let stopped = Instant::now();
    env.stop();
    // The clients stay connected: a stop does not wait for them to close, either.
    let _stay = stalled.map(|(kind, mut client)| {
        let answer = client.read();
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (503, "shutting_down"),
            "{kind}"
        );
        assert!(answer.header("retry-after").is_some(), "{kind}");
        assert_eq!(answer.header("connection"), Some("close"), "{kind}");
        client
    });
    env.join();
    assert!(stopped.elapsed() < SOON, "{:?}", stopped.elapsed());
    assert!(env.rows().events.is_empty());
}

/// Waits until nobody listens any more: the stop has begun.
fn until_stopping(env: &TestEnv) {
    let started = Instant::now();
    while std::net::TcpStream::connect(env.addr).is_ok() {
        assert!(started.elapsed() < SOON, "it still listens");
    }
}

#[test]
fn a_body_that_goes_on_coming_is_taken_at_a_stop() {
    const STALL: Duration = Duration::from_secs(2);
    const PAUSE: Duration = Duration::from_millis(100);
    let mut env = TestEnv::with(|options| {
        options.server.grace = LONG_GRACE;
        options.server.limits.stop_stall_timeout = STALL;
    });
    let whole = request("POST", "/e/", &[], batch(&["slow"; 4]).as_bytes());
    let mut client = env.client();
    let (first, rest) = whole.split_at(whole.len() / 2);
    client.send(first);
    env.stop();
    until_stopping(&env);
    // For longer than a silent one has.
    for piece in rest.chunks(rest.len() / 30 + 1) {
        client.send(piece);
        std::thread::sleep(PAUSE);
    }
    assert_eq!(client.read().status, 200);
    env.join();
    assert_eq!(env.rows().events.len(), 4);
}
