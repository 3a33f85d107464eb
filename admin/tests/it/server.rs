//! The server on a real socket.

use crate::test_server::TestServer;
use millrace_admin::ApiConfig;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

on_both!(
    the_server_answers_until_shutdown,
    a_client_that_does_not_read_is_cut_off,
);

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
