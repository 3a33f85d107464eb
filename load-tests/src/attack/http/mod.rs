//! A request on a connection of its own, from an address of the sender's choice.
//!
//! All of `127.0.0.0/8` is this machine. Tenants have an address each, and so limits by address
//! tell them apart. A refused sender often cannot write its whole request: the response counts, not
//! how much was sent.

mod chunked;

use crate::target::Target;
use anyhow::{Context, Result};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::WriteHalf;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

/// Longest wait for a response. It is long, as debug builds on busy machines are slow but not
/// wrong.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest wait for the first bytes of a response that is not read further.
const STATUS_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of a response up to its status.
const STATUS_BYTES: usize = "HTTP/1.1 200".len();
const READ_BYTES: usize = 64 * 1024;

/// Address to send to, and address to send from.
#[derive(Clone, Debug)]
pub(super) struct Client {
    to: SocketAddr,
    from: Ipv4Addr,
}

/// Pieces in which a body is sent, and the pause before each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) pieces: usize,
    pub(super) pause: Duration,
}

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A response, at least its head.
    Response {
        /// HTTP status code.
        status: u16,
        /// Body as text.
        body: String,
    },
    /// The connection ended without a response.
    Cut,
    /// No response arrived in time.
    Late,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response { status, .. } => status.fmt(f),
            Self::Cut => f.write_str("cut"),
            Self::Late => f.write_str("late"),
        }
    }
}

impl Outcome {
    /// Status of the response; 0 if there is none.
    pub(super) const fn status(&self) -> u16 {
        match self {
            Self::Response { status, .. } => *status,
            Self::Cut | Self::Late => 0,
        }
    }

    /// Body of the response as JSON; null if there is none.
    pub(super) fn json(&self) -> Value {
        match self {
            Self::Response { body, .. } => serde_json::from_str(body).unwrap_or_default(),
            Self::Cut | Self::Late => Value::Null,
        }
    }

    /// Body of the response as text; empty if there is none.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Response { body, .. } => body,
            Self::Cut | Self::Late => "",
        }
    }

    /// Parses the received bytes as a response; `None` if they hold no complete head.
    fn of(received: &[u8]) -> Option<Self> {
        let (head, body) = parts(received);
        let head = String::from_utf8_lossy(head.strip_suffix(b"\r\n\r\n")?);
        let status = status_in(&head)?;
        let body: Cow<'_, [u8]> = match chunked::is_chunked(&head) {
            true => Cow::Owned(chunked::joined(body)),
            false => Cow::Borrowed(body),
        };
        Some(Self::Response {
            status,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

impl Client {
    /// A client at this address that sends to the host of a URL.
    pub(super) fn new(url: &str, from: Ipv4Addr) -> Result<Self> {
        let authority = Target::parse(url)?.authority;
        let to = authority
            .parse()
            .with_context(|| format!("{authority} is not an address"))?;
        Ok(Self { to, from })
    }

    /// Opens a connection.
    pub(super) async fn connect(&self) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(self.from.into(), 0))?;
        let stream = socket.connect(self.to).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Sends bytes and reads until the connection is closed.
    pub(super) async fn send(&self, request: &[u8]) -> Outcome {
        self.send_at(request, None).await
    }

    /// Sends a request, its body at a pace if one is given, and reads until the connection is
    /// closed.
    pub(super) async fn send_at(&self, request: &[u8], pace: Option<Pace>) -> Outcome {
        let received = timeout(RESPONSE_TIMEOUT, self.exchange(request, pace)).await;
        received.map_or(Outcome::Late, |received| {
            Outcome::of(&received).unwrap_or(Outcome::Cut)
        })
    }

    /// Bytes received until the connection ended, in whatever way.
    async fn exchange(&self, request: &[u8], pace: Option<Pace>) -> Vec<u8> {
        let mut received = Vec::new();
        let Ok(mut stream) = self.connect().await else {
            return received;
        };
        let (mut reading, mut writing) = stream.split();
        let read = async {
            let mut piece = vec![0; READ_BYTES];
            while let Ok(count @ 1..) = reading.read(&mut piece).await {
                received.extend_from_slice(piece.get(..count).unwrap_or_default());
            }
        };
        // A server that has refused a request need not read the rest.
        let write = async { drop(write_at(&mut writing, request, pace).await) };
        tokio::join!(read, write);
        received
    }

    /// Sends a JSON request to an API, with a key unless it is empty.
    pub(super) async fn call(&self, method: &str, path: &str, key: &str, body: &Value) -> Outcome {
        let bearer = format!("Bearer {key}");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
        ];
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let without_key = headers.get(1..).unwrap_or_default();
        let headers = if key.is_empty() {
            without_key
        } else {
            &headers
        };
        self.send(&request(method, path, headers, body.as_bytes()))
            .await
    }
}

/// Writes a request: its head at once, its body at a pace if one is given.
async fn write_at(
    writing: &mut WriteHalf<'_>,
    request: &[u8],
    pace: Option<Pace>,
) -> io::Result<()> {
    let Some(Pace { pieces, pause }) = pace else {
        return writing.write_all(request).await;
    };
    let (head, body) = parts(request);
    writing.write_all(head).await?;
    for piece in body.chunks(body.len().div_ceil(pieces.max(1)).max(1)) {
        sleep(pause).await;
        writing.write_all(piece).await?;
    }
    Ok(())
}

/// Head of a request or a response with the empty line at its end, and body.
fn parts(request: &[u8]) -> (&[u8], &[u8]) {
    let end = request.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.map_or(request.len(), |at| at + 4);
    request.split_at_checked(end).unwrap_or((request, &[]))
}

/// Status of a response of which nothing more is read; 0 if none comes in time.
pub(super) async fn status_of(stream: &mut TcpStream) -> u16 {
    let mut head = [0; STATUS_BYTES];
    match timeout(STATUS_TIMEOUT, stream.read_exact(&mut head)).await {
        Ok(Ok(_)) => status_in(&String::from_utf8_lossy(&head)).unwrap_or_default(),
        Ok(Err(_)) | Err(_) => 0,
    }
}

/// Status in the first line of a response.
fn status_in(head: &str) -> Option<u16> {
    head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

/// A complete request that asks for the connection to be closed.
pub(super) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    [head.as_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::current_thread_runtime;
    use tokio::net::TcpListener;

    #[test]
    fn received_bytes_are_a_response_or_none() {
        for (received, status, body) in [
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{\"a\":1}", 200, "{\"a\":1}"),
            ("HTTP/1.1 413 Too Large\r\n\r\n", 413, ""),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
                200,
                "{}",
            ),
        ] {
            let answer = Outcome::of(received.as_bytes()).unwrap();
            assert_eq!((answer.status(), answer.text()), (status, body));
        }
        for received in ["", "HTTP/1.1 200 OK\r\n", "SSH-2.0\r\n\r\n"] {
            assert_eq!(Outcome::of(received.as_bytes()), None, "{received}");
        }
    }

    #[test]
    fn a_body_that_is_sent_at_a_pace_arrives_whole() {
        let runtime = current_thread_runtime().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let client = Client::new(&url, Ipv4Addr::LOCALHOST).unwrap();
            let sent = request("POST", "/", &[], b"0123456789");
            let served = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut received = vec![0; sent.len()];
                stream.read_exact(&mut received).await.unwrap();
                let answer = b"HTTP/1.1 200 OK\r\n\r\nok";
                stream.write_all(answer).await.unwrap();
                received
            };
            let pace = Pace {
                pieces: 3,
                pause: Duration::from_millis(1),
            };
            let (outcome, received) = tokio::join!(client.send_at(&sent, Some(pace)), served);
            assert_eq!((outcome.status(), outcome.text()), (200, "ok"));
            assert_eq!(received, sent);
        });
    }

    #[test]
    fn a_request_is_split_behind_its_head() {
        let bytes = request("POST", "/", &[], b"x\r\n\r\ny");
        let (head, body) = parts(&bytes);
        assert!(head.ends_with(b"Content-Length: 6\r\n\r\n"));
        assert_eq!(body, b"x\r\n\r\ny");
        assert_eq!(parts(b"GET /"), (&b"GET /"[..], &b""[..]));
    }

    #[test]
    fn a_request_has_a_content_length() {
        let bytes = request("POST", "/e/", &[("A", "b")], b"xyz");
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.starts_with("POST /e/ HTTP/1.1\r\nHost: t\r\n"),
            "{text}"
        );
        assert!(
            text.ends_with("A: b\r\nContent-Length: 3\r\n\r\nxyz"),
            "{text}"
        );
    }
}
