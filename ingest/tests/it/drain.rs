//! A shutdown finishes the requests that have begun.

use crate::client::request;
use crate::test_env::{TestEnv, batch};

#[test]
fn a_request_in_flight_is_finished_and_told_to_close() {
    let mut env = TestEnv::start();
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
        options.server.grace = std::time::Duration::from_millis(200);
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
        options.server.drain = std::time::Duration::from_secs(5);
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
