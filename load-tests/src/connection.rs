//! Socket of one connection: the whole request in one write, the response mostly in one read.
//!
//! No HTTP library is used. A request is bytes that exist already, a response is a status line and
//! a length, and anything more would take time from the server under test.

use crate::peer::{Peer, Stream};
use crate::response::{ResponseError, ResponseHead, read_head};
use std::fmt;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const READ_BYTES: usize = 16 * 1024;

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    input: Vec<u8>,
    filled: usize,
}

/// A response, borrowed from the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseView<'a> {
    /// HTTP status code.
    pub status: u16,
    /// Body of the response.
    pub body: &'a [u8],
    /// True if the connection can be used again.
    pub reusable: bool,
}

/// Reason for a missing response.
#[derive(Debug)]
pub enum ExchangeError {
    /// The connection broke.
    Io(io::Error),
    /// The server closed the connection before responding.
    Closed,
    /// The response cannot be parsed.
    Response(ResponseError),
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "connection broke: {}", error.kind()),
            Self::Closed => f.write_str("connection closed without an answer"),
            Self::Response(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ExchangeError {}

impl From<io::Error> for ExchangeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ResponseError> for ExchangeError {
    fn from(error: ResponseError) -> Self {
        Self::Response(error)
    }
}

impl Connection {
    /// Opens a connection.
    ///
    /// # Errors
    /// The server cannot be reached, or is not trusted.
    pub async fn open(peer: &Peer) -> io::Result<Self> {
        Ok(Self {
            stream: peer.connect().await?,
            input: vec![0; READ_BYTES],
            filled: 0,
        })
    }

    /// Sends a request and waits for its response.
    ///
    /// A server may respond and close before it has read the whole request (413, for example). A
    /// response is therefore read even if the request could not be sent whole.
    ///
    /// # Errors
    /// There was no response; the connection cannot be used again.
    pub async fn exchange(&mut self, request: &[u8]) -> Result<ResponseView<'_>, ExchangeError> {
        let sent = self.send(request).await;
        self.filled = 0;
        let received = self.receive().await;
        let (head, body_bytes) = match (&sent, received) {
            (Err(_), Err(_)) => {
                return Err(sent.map_or_else(Into::into, |()| ExchangeError::Closed));
            }
            (_, received) => received?,
        };
        let end = head.head_bytes + body_bytes;
        Ok(ResponseView {
            status: head.status,
            body: self.input.get(head.head_bytes..end).unwrap_or_default(),
            reusable: sent.is_ok() && !head.close && self.filled == end,
        })
    }

    /// Writes and flushes: TLS keeps unsent bytes until it is flushed.
    async fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request).await?;
        self.stream.flush().await
    }

    /// Reads a response; returns its head and the length of its body.
    async fn receive(&mut self) -> Result<(ResponseHead, usize), ExchangeError> {
        let head = loop {
            self.fill().await?;
            if let Some(head) = read_head(self.received(0))? {
                break head;
            }
        };
        loop {
            if let Some(body_bytes) = head.body_bytes(self.received(head.head_bytes))? {
                return Ok((head, body_bytes));
            }
            self.fill().await?;
        }
    }

    /// Bytes received so far, without the first ones.
    fn received(&self, from: usize) -> &[u8] {
        self.input.get(from..self.filled).unwrap_or_default()
    }

    async fn fill(&mut self) -> Result<(), ExchangeError> {
        if self.filled == self.input.len() {
            self.input.resize(self.filled + READ_BYTES, 0);
        }
        let room = self.input.get_mut(self.filled..).unwrap_or_default();
        match self.stream.read(room).await? {
            0 => Err(ExchangeError::Closed),
            read => {
                self.filled += read;
                Ok(())
            }
        }
    }
}
