//! HTTP/1.1 on the wire, for servers of tests.

use serde_json::Value;
use std::collections::BTreeMap;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// HTTP request as it was received.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    /// Path and query of the request.
    pub target: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    /// Reads the head of a request, and the length of its body.
    pub async fn head(stream: &mut TcpStream) -> Option<(Self, usize)> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let (line, headers) = head.split_once("\r\n").unwrap();
        let headers = headers.lines().filter_map(|header| header.split_once(": "));
        let headers: BTreeMap<_, _> = headers
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = headers.get("content-length");
        let length = length.map_or(0, |length| length.parse().unwrap());
        let mut line = line.split(' ').map(str::to_owned);
        let request = Self {
            method: line.next().unwrap(),
            target: line.next().unwrap(),
            headers,
            body: Vec::new(),
        };
        Some((request, length))
    }

    pub fn lines(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.body).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn key(&self) -> &str {
        &self.headers["idempotency-key"]
    }
}
