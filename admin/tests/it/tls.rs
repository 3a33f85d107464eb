//! TLS on the listener of the API.

use crate::Fixture;
use crate::test_server::TestServer;
use millrace_tls::ServerTls;
use millrace_tls::testing::TestAuthority;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::version::{TLS12, TLS13};

on_both!(
    the_api_answers_over_tls_with_links_of_https,
    a_client_without_its_certificate_is_not_served,
    http_without_tls_is_told_to_use_https,
    a_stop_waits_for_no_handshake,
);

/// Longer than anything takes on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Starts a server with TLS. `clients` is the authority of client certificates, if there is one.
async fn started(clients: Option<&TestAuthority>) -> (TestServer, TestAuthority) {
    let authority = TestAuthority::new();
    let mut files = authority.files("127.0.0.1");
    files.client_authority = clients.map(TestAuthority::certificate);
    let tls = ServerTls::load(files).unwrap();
    let fixture = Fixture::new().await;
    let server = TestServer::over(fixture, |services| services.tls = Some(tls)).await;
    (server, authority)
}

/// Sends a request, and returns all that comes until the server closes the connection.
async fn answer_of(server: &TestServer, client: ClientConfig, path: &str) -> String {
    let tcp = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connected = TlsConnector::from(Arc::new(client)).connect(name, tcp);
    let mut stream = connected.await.unwrap();
    let key = server.fixture.owner_key();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: h:1\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    );
    // Fails where the server has ended the handshake.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let read = timeout(SOON, stream.read_to_end(&mut answer)).await;
    let _ = read.expect("it keeps the connection");
    String::from_utf8(answer).unwrap()
}

async fn the_api_answers_over_tls_with_links_of_https() {
    let (server, authority) = started(None).await;
    for version in [&TLS12, &TLS13] {
        let client = authority.client(&[version]);
        let answer = answer_of(&server, client, "/api/organizations/?limit=1&offset=1").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        // The host is that of the request.
        let previous = r#""previous":"https://h:1/api/organizations/"#;
        assert!(answer.contains(previous), "{answer}");
    }
    server.stop().await;
}

async fn a_client_without_its_certificate_is_not_served() {
    let clients = TestAuthority::new();
    let (server, authority) = started(Some(&clients)).await;
    let known = authority.client_known_to(&clients, &[&TLS13]);
    let table = [(authority.client(&[&TLS13]), false), (known, true)];
    for (client, expected) in table {
        let answer = answer_of(&server, client, "/api/organizations/").await;
        assert_eq!(answer.starts_with("HTTP/1.1 200"), expected, "{answer}");
    }
    server.stop().await;
}

async fn http_without_tls_is_told_to_use_https() {
    let (server, _authority) = started(None).await;
    let mut client = TcpStream::connect(server.address).await.unwrap();
    let request = b"GET /api/organizations/ HTTP/1.1\r\nHost: h\r\n\r\n";
    client.write_all(request).await.unwrap();
    let mut answer = String::new();
    let read = timeout(SOON, client.read_to_string(&mut answer)).await;
    read.expect("it keeps the connection").unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains(r#""code":"https_required""#), "{answer}");
    server.stop().await;
}

async fn a_stop_waits_for_no_handshake() {
    let (server, _authority) = started(None).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    // Less than a handshake may take without a stop.
    let stopped = timeout(Duration::from_secs(8), server.stop()).await;
    stopped.expect("it waits for the silent client");
    let mut rest = Vec::new();
    assert_eq!(silent.read_to_end(&mut rest).await.unwrap_or(0), 0);
}
