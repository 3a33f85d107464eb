//! Requests over a socket, each on a connection of its own.

use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Response as read from a socket.
pub struct RawResponse {
    pub status: u16,
    /// Length of the body by `Content-Length`, or of one in chunks that has its last.
    pub length: usize,
    pub body: Vec<u8>,
}

impl RawResponse {
    /// Parses the bytes that were read; `None` before the head is complete.
    pub fn of(read: &[u8]) -> Option<Self> {
        let end = read.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8(read[..end].to_vec()).unwrap();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.parse().unwrap())
        });
        let body = read[end + 4..].to_vec();
        let in_chunks = || body.ends_with(b"\r\n0\r\n\r\n").then_some(body.len());
        Some(Self {
            status: head.split(' ').nth(1)?.parse().unwrap(),
            length: length.or_else(in_chunks).unwrap_or(0),
            body,
        })
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Text of a request.
pub fn request(address: SocketAddr, key: &str, path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
         Connection: close\r\n\r\n"
    )
}

/// Sends a request and reads the whole response.
pub async fn get(address: SocketAddr, key: &str, path: &str) -> RawResponse {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = request(address, key, path);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.unwrap();
    let answer = RawResponse::of(&read).unwrap();
    assert_eq!(answer.body.len(), answer.length, "{path} was cut off");
    answer
}
