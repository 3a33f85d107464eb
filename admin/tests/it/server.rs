//! The server on a real socket.

use crate::test_server::TestServer;
use millrace_admin::ApiConfig;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

on_both!(
    the_server_answers_until_shutdown,
    a_client_that_does_not_read_is_cut_off,
    a_head_over_64_kib_is_refused,
    a_connection_without_a_whole_head_in_time_is_closed,
    a_body_that_does_not_arrive_in_time_is_400,
    a_client_that_stalls_in_a_request_is_not_waited_for_at_a_stop,
);

/// Longer than the end takes on a busy machine.
const SOON: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);
/// Longer than a test waits for anything.
const LONG: Duration = Duration::from_secs(600);

/// Sends bytes and returns all that comes until the server closes the connection.
async fn closed_after(server: &TestServer, bytes: &[u8]) -> String {
    let mut client = TcpStream::connect(server.address).await.unwrap();
    // The server may close the connection before all is sent; that is no error here.
    let _ = client.write_all(bytes).await;
    let mut answer = Vec::new();
    let closed = timeout(SOON, client.read_to_end(&mut answer)).await;
    let _ = closed.expect("it keeps the connection");
    String::from_utf8(answer).unwrap()
}

async fn the_server_answers_until_shutdown() {
    let server = TestServer::start_unthrottled().await;
    let address = server.address;
    let key = server.fixture.owner_key();
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /api/organizations/ HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\r\n"
    );
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        let read = client.read_buf(&mut answer).await.unwrap();
        assert_ne!(read, 0, "closed early");
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("Default organization"), "{answer}");

    // The connection is kept alive and idle: the drain closes it.
    server.stop().await;
    assert_eq!(client.read(&mut [0; 16]).await.unwrap(), 0);
    assert!(TcpStream::connect(address).await.is_err());
}

async fn a_client_that_does_not_read_is_cut_off() {
    let at_once = |config: &mut ApiConfig| config.write_timeout = Duration::from_millis(50);
    let server = TestServer::start(at_once).await;
    let mut client = TcpStream::connect(server.address).await.unwrap();
    let request = "GET /api/schema/ HTTP/1.1\r\nHost: admin.example\r\n\r\n".repeat(64);
    // Fills the buffers both ways; then nothing moves until the server gives up.
    while client.write_all(request.as_bytes()).await.is_ok() {}
    server.stop().await;
}

async fn a_head_over_64_kib_is_refused() {
    let server = TestServer::start_unthrottled().await;
    // A head that is complete with what was read at once is not refused for some bytes.
    for (bytes, status) in [(60 << 10, "200"), (128 << 10, "431")] {
        let long = "a".repeat(bytes);
        let head = format!(
            "GET /api/schema/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Long: {long}\r\n\r\n"
        );
        let answer = closed_after(&server, head.as_bytes()).await;
        let begins = answer.starts_with(&format!("HTTP/1.1 {status} "));
        assert!(begins, "{bytes}: {answer:.80}");
    }
    server.stop().await;
}

async fn a_connection_without_a_whole_head_in_time_is_closed() {
    let config = ApiConfig::default();
    assert_eq!(config.head_timeout, Duration::from_secs(30));
    let server = TestServer::start(|config| config.head_timeout = SHORT).await;
    let table = [
        ("silent", "", ""),
        ("half a line", "GET /api/sche", ""),
        (
            "half a head",
            "GET /api/schema/ HTTP/1.1\r\nHost: a\r\n",
            "",
        ),
        (
            "idle after a request",
            "GET /api/schema/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "HTTP/1.1 200 OK\r\n",
        ),
    ];
    for (kind, sent, expected) in table {
        let answer = closed_after(&server, sent.as_bytes()).await;
        let line = answer.split_inclusive('\n').next().unwrap_or_default();
        assert_eq!(line, expected, "{kind}");
    }
    server.stop().await;
}

async fn a_body_that_does_not_arrive_in_time_is_400() {
    let config = ApiConfig::default();
    assert_eq!(config.body_timeout, Duration::from_secs(10));
    let server = TestServer::start(|config| config.body_timeout = SHORT).await;
    let key = server.fixture.owner_key();
    let request = format!(
        "POST /api/organizations/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
         Authorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Content-Length: 100\r\n\r\n{{\"name\":"
    );
    let answer = closed_after(&server, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("did not arrive within"), "{answer}");
    server.stop().await;
}

/// Regression: it took all of the time for requests in flight.
async fn a_client_that_stalls_in_a_request_is_not_waited_for_at_a_stop() {
    let patient = |config: &mut ApiConfig| {
        config.head_timeout = LONG;
        config.body_timeout = LONG;
    };
    let server = TestServer::start(patient).await;
    let key = server.fixture.owner_key();
    let head = format!(
        "POST /api/organizations/ HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\
         Expect: 100-continue\r\n\r\n"
    );
    let half = format!("{head}{{\"name\":");
    let going_on = "HTTP/1.1 100 Continue\r\n\r\n";
    // The last ones are in their bodies when they are told to go on. All others are accepted then.
    let table = [
        ("silent", "", "", ""),
        ("half a line", "GET /api/sche", "", ""),
        ("half a head", head.trim_end(), "", ""),
        ("a head alone", &*head, going_on, "HTTP/1.1 503 "),
        ("half a body", &*half, going_on, "HTTP/1.1 503 "),
    ];
    let mut clients = Vec::new();
    for (kind, sent, told, expected) in table {
        let mut client = TcpStream::connect(server.address).await.unwrap();
        client.write_all(sent.as_bytes()).await.unwrap();
        let mut read = vec![0; told.len()];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(read, told.as_bytes(), "{kind}");
        clients.push((kind, client, expected));
    }
    server.stop().await;
    for (kind, mut client, expected) in clients {
        let mut answer = String::new();
        let closed = timeout(SOON, client.read_to_string(&mut answer)).await;
        closed.expect(kind).unwrap();
        let begins = answer.starts_with(expected) && answer.is_empty() == expected.is_empty();
        assert!(begins, "{kind}: {answer}");
        let may_retry = answer.contains("\r\nretry-after: ");
        assert_eq!(may_retry, !expected.is_empty(), "{kind}: {answer}");
    }
}
