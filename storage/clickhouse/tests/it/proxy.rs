//! Proxies before ClickHouse, of which each test has one of its own.

use millrace_clickhouse::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Settings of a proxy before another server; `serve` gets each connection, and the server's
/// address.
pub async fn behind<F>(
    settings: &Settings,
    serve: impl Fn(TcpStream, String) -> F + Send + 'static,
) -> Settings
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = settings.url.strip_prefix("http://").unwrap();
    let server = server.trim_end_matches('/').to_owned();
    let mut settings = settings.clone();
    settings.url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, server.clone()));
        }
    });
    settings
}

/// Reads a request to its end, and adds that the connection is closed after it.
pub async fn read_request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        if let Some(at) = request.windows(4).position(|it| it == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&request[..at]).to_lowercase();
            let mut lines = head.lines();
            let length = lines.find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if request.len() >= at + 4 + length {
                drop(request.splice(at..at, *b"\r\nConnection: close"));
                return Some(request);
            }
        }
        if client.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
}

/// Sends a request after which the connection is closed to a server; returns the answer.
pub async fn answer_of(server: String, request: &[u8]) -> Vec<u8> {
    let mut server = TcpStream::connect(server).await.unwrap();
    server.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await.unwrap();
    answer
}
