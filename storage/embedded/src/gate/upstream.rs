//! Connection to the engine for one client, and answers that come over it.
//!
//! It is opened for the first request and kept for the next ones. The client's end is its end, so
//! the engine stops what nobody waits for.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::stream::Exchange;

/// Bytes that are read, and those that are written, at once.
pub(super) const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Reason that a request has no answer. The client's connection is ended then, as the engine would
/// end it.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    #[error("the engine does not listen: {0}")]
    Connect(#[from] io::Error),
    #[error("the exchange with the engine failed: {0}")]
    Http(#[from] hyper::Error),
}

/// Connection to the engine, while one is open and no request needs it.
pub(super) struct Upstream {
    engine: SocketAddr,
    kept: Mutex<Option<Connected>>,
}

struct Connected {
    sender: SendRequest<Incoming>,
    /// Ends the connection when dropped.
    _task: Task,
}

/// Task that is ended when this is dropped.
struct Task(AbortHandle);

/// Body of an answer of the engine.
pub(super) struct EngineBody {
    body: Incoming,
    exchange: Exchange,
    is_broken: bool,
}

// === impl Upstream ===

impl Upstream {
    pub(super) const fn new(engine: SocketAddr) -> Self {
        Self {
            engine,
            kept: Mutex::new(None),
        }
    }

    /// Sends a request and returns the answer once its head is there.
    pub(super) async fn send(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let kept = self.kept().take();
        let mut connected = match kept {
            Some(kept) => match kept.ready().await {
                Some(ready) => ready,
                None => self.connect().await?,
            },
            None => self.connect().await?,
        };
        let answer = connected.sender.send_request(request).await?;
        *self.kept() = Some(connected);
        Ok(answer)
    }

    async fn connect(&self) -> Result<Connected, UpstreamError> {
        let tcp = TcpStream::connect(self.engine).await?;
        tcp.set_nodelay(true)?;
        let (sender, connection) = Builder::new()
            .max_buf_size(BUFFER_BYTES_MAX)
            .preserve_header_case(true)
            .handshake::<_, Incoming>(TokioIo::new(tcp))
            .await?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the engine ended early");
            }
        });
        Ok(Connected {
            sender,
            _task: Task(task.abort_handle()),
        })
    }

    fn kept(&self) -> MutexGuard<'_, Option<Connected>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Connected ===

impl Connected {
    /// Waits until the last answer is over; `None` if the engine has closed the connection.
    async fn ready(mut self) -> Option<Self> {
        self.sender.ready().await.ok()?;
        Some(self)
    }
}

// === impl Task ===

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

// === impl EngineBody ===

impl EngineBody {
    pub(super) fn new(body: Incoming, exchange: Exchange) -> Self {
        Self {
            body,
            exchange,
            is_broken: false,
        }
    }
}

impl Body for EngineBody {
    type Data = Bytes;
    type Error = Infallible;

    /// Polls the engine's answer. One that breaks off has no end and no error: hyper would write an
    /// end after the one, and drop what it has not written for the other.
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.is_broken {
            return Poll::Pending;
        }
        match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            None => Poll::Ready(None),
            Some(Ok(frame)) => Poll::Ready(Some(Ok(frame))),
            Some(Err(error)) => {
                tracing::debug!(%error, "an answer of the engine broke off");
                this.is_broken = true;
                this.exchange.break_off();
                // hyper flushes at its next turn, where the socket ends the connection.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
