//! A shutdown finishes what has begun.

use crate::client::request;
use crate::stand::{Stand, batch};

#[test]
fn a_request_in_flight_is_finished_and_told_to_close() {
    let mut stand = Stand::start();
    let whole = request("POST", "/e/", &[], batch(&["last"]).as_bytes());
    let mut idle = stand.client();
    assert_eq!(
        idle.post("/e/", &[], batch(&["first"]).as_bytes()).status,
        200
    );
    let mut client = stand.client();
    client.send(&whole[..whole.len() - 5]);
    // The idle connection's end shows that the drain has begun.
    stand.stop();
    assert!(idle.is_closed());
    client.send(&whole[whole.len() - 5..]);
    let answer = client.read();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("connection"), Some("close"));
    stand.join();
    assert_eq!(stand.rows().names(), ["first", "last"]);
    assert!(std::net::TcpStream::connect(stand.addr).is_err());
}

#[test]
fn a_drain_ends_with_the_grace_period() {
    let mut stand = Stand::with(|options| {
        options.server.grace = std::time::Duration::from_millis(200);
    });
    let mut client = stand.client();
    client.send(b"POST /e/ HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{");
    let mut idle = stand.client();
    assert_eq!(idle.post("/e/", &[], batch(&["e"]).as_bytes()).status, 200);
    stand.join();
    assert!(client.is_closed());
}

#[test]
fn until_a_balancer_has_noticed_everybody_is_served_and_told_to_close() {
    let mut stand = Stand::with(|options| {
        options.server.drain = std::time::Duration::from_secs(5);
    });
    let mut idle = stand.client();
    let event = batch(&["e"]);
    assert_eq!(idle.post("/e/", &[], event.as_bytes()).status, 200);
    stand.stop();
    let ready = |stand: &Stand| {
        let mut probe = stand.client();
        probe.request("GET", "/_health/ready", &[], b"").status
    };
    while ready(&stand) == 200 {}
    assert_eq!(ready(&stand), 503);
    for mut client in [idle, stand.client()] {
        let answer = client.post("/e/", &[], event.as_bytes());
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(client.is_closed());
    }
    stand.join();
    assert!(std::net::TcpStream::connect(stand.addr).is_err());
}
