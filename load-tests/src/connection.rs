//! One connection's socket: the whole request in one write, the answer mostly in one read.
//!
//! No HTTP library: a request is bytes that exist already, an answer is a status line and a
//! length, and anything more is time that the server under test does not get.

use crate::peer::{Peer, Stream};
use crate::response::{Head, ResponseError, read_head};
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

/// An answer, borrowed from the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Status code.
    pub status: u16,
    /// The body.
    pub body: &'a [u8],
    /// Whether the connection can be used again.
    pub reusable: bool,
}

/// Why there was no answer.
#[derive(Debug)]
pub enum ExchangeError {
    /// The connection broke.
    Io(io::Error),
    /// The server closed it before answering.
    Closed,
    /// The answer cannot be read.
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
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached, or not trusted.
    pub async fn open(peer: &Peer) -> io::Result<Self> {
        Ok(Self {
            stream: peer.connect().await?,
            input: vec![0; READ_BYTES],
            filled: 0,
        })
    }

    /// Sends a request and waits for its answer.
    ///
    /// A server may answer and close before it has read all (413, say): the answer is looked for
    /// even when the request could not be sent whole.
    ///
    /// # Errors
    /// There was no answer; the connection is of no more use.
    pub async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>, ExchangeError> {
        let sent = self.send(request).await;
        self.filled = 0;
        let received = self.receive().await;
        let head = match (&sent, received) {
            (Err(_), Err(_)) => {
                return Err(sent.map_or_else(Into::into, |()| ExchangeError::Closed));
            }
            (_, received) => received?,
        };
        let end = head.head_bytes + head.body_bytes;
        Ok(Answer {
            status: head.status,
            body: self.input.get(head.head_bytes..end).unwrap_or_default(),
            reusable: sent.is_ok() && !head.close && self.filled == end,
        })
    }

    /// TLS keeps what it has not sent until it is told that more will not follow.
    async fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request).await?;
        self.stream.flush().await
    }

    async fn receive(&mut self) -> Result<Head, ExchangeError> {
        loop {
            self.fill().await?;
            let Some(head) = read_head(self.input.get(..self.filled).unwrap_or_default())? else {
                continue;
            };
            while self.filled < head.head_bytes + head.body_bytes {
                self.fill().await?;
            }
            return Ok(head);
        }
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
