//! Redirects are not followed.

use crate::canary::Canary;
use crate::resolver::Scripted;
use millrace_dial::Guard;
use reqwest::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Starts a server on loopback that answers one request with a redirect.
async fn redirecting(status: u16, location: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 4096];
        let _read = stream.read(&mut head).await.unwrap();
        let answer = format!(
            "HTTP/1.1 {status} Elsewhere\r\nLocation: {location}\r\nContent-Length: 0\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    port
}

#[tokio::test]
async fn a_redirect_is_returned_and_not_followed() {
    let canary = Canary::new();
    // Even where its target could be dialled.
    let guard = Guard::with_resolver(true, Scripted::new(&[&["127.0.0.1"]])).unwrap();
    for status in [301, 302, 303, 307, 308] {
        for host in ["127.0.0.1", "[::1]", "localhost", "2130706433"] {
            let location = format!("http://{host}:{}/secret", canary.port());
            let port = redirecting(status, location).await;
            let url = format!("http://127.0.0.1:{port}/");
            let answer = guard.http_client().get(url).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::from_u16(status).unwrap());
        }
    }
    assert_eq!(canary.connections(), 0);
}
