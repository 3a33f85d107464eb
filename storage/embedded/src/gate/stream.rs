//! Socket of an HTTP client: timeouts of heads, the pace of answers, and answers that broke off.
//!
//! | State | Ends by |
//! |---|---|
//! | waiting for the first head | a head, or 10 s: closed |
//! | waiting for the next head | a byte, or 120 s: closed |
//! | a head has begun | the head, or 10 s: closed |
//! | a request is under way | the end of its answer, or a client that does not take it |
//!
//! hyper has one timeout for the first three, and drops what it has not written yet when an answer
//! breaks off: the engine's exception would be lost.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use super::pace::WritePace;
use crate::connections::Place;

/// Time within which a head must arrive.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// Time that an idle connection is kept: longer than clients keep theirs, so that they close it and
/// no request meets its end.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// State that a client's socket shares with its requests and their answers.
#[derive(Default)]
pub(super) struct ClientState {
    /// Number of requests so far.
    requests: AtomicU64,
    /// True if the answer broke off.
    is_broken: AtomicBool,
    /// True if the pace of the answer does not matter.
    is_unpaced: AtomicBool,
}

/// Request that is under way until this is dropped, with its answer.
pub(super) struct Exchange {
    state: Arc<ClientState>,
    place: Arc<Place>,
}

/// Socket of one client.
pub(super) struct ClientStream {
    tcp: TcpStream,
    state: Arc<ClientState>,
    place: Arc<Place>,
    /// Number of requests at the last look.
    requests: u64,
    in_head: bool,
    timer: Option<Pin<Box<Sleep>>>,
    pace: WritePace,
}

// === impl Exchange ===

impl Exchange {
    /// Begins a request.
    pub(super) fn begin(state: &Arc<ClientState>, place: &Arc<Place>) -> Self {
        state.requests.fetch_add(1, Relaxed);
        state.is_unpaced.store(false, Relaxed);
        place.set_busy(true);
        Self {
            state: Arc::clone(state),
            place: Arc::clone(place),
        }
    }

    /// Lets the client take its answer as slowly as it likes.
    pub(super) fn set_unpaced(&self) {
        self.state.is_unpaced.store(true, Relaxed);
    }

    /// Ends the connection once all that there is of the answer is written.
    pub(super) fn break_off(&self) {
        self.state.is_broken.store(true, Relaxed);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.place.set_busy(false);
    }
}

// === impl ClientStream ===

impl ClientStream {
    pub(super) fn new(tcp: TcpStream, state: Arc<ClientState>, place: Arc<Place>) -> Self {
        Self {
            tcp,
            state,
            place,
            requests: 0,
            in_head: true,
            timer: Some(Box::pin(sleep(HEAD_MAX))),
            pace: WritePace::default(),
        }
    }

    /// Forgets the times of the last wait once a request has begun.
    fn refresh(&mut self) {
        let requests = self.state.requests.load(Relaxed);
        if self.requests != requests {
            self.requests = requests;
            self.in_head = false;
            self.timer = None;
        }
    }

    /// Waits, while no request is under way, for the time at which the next one is overdue.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        self.refresh();
        if self.place.is_busy() {
            return Poll::Pending;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(IDLE_MAX)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(ErrorKind::TimedOut.into())
    }

    /// Notes bytes of a head.
    fn received(&mut self) {
        self.refresh();
        if !self.in_head && !self.place.is_busy() {
            self.in_head = true;
            self.timer = Some(Box::pin(sleep(HEAD_MAX)));
        }
    }

    /// Ends the connection of a client that does not take its answer.
    fn after_write(
        &mut self,
        written: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => self.pace.wrote(bytes),
            Poll::Pending
                if !self.state.is_unpaced.load(Relaxed)
                    && self.pace.poll_stalled(cx).is_ready() =>
            {
                tracing::debug!("a client of ClickHouse does not read its answer");
                return Poll::Ready(Err(ErrorKind::TimedOut.into()));
            }
            Poll::Ready(Err(_)) | Poll::Pending => {}
        }
        written
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.tcp).poll_read(cx, buf) {
            Poll::Ready(Ok(())) => {
                if buf.filled().len() > before {
                    self.received();
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.poll_overdue(cx).map(Err),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write(cx, bytes);
        self.after_write(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write_vectored(cx, slices);
        self.after_write(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    /// Flushes. hyper does so once all that it has is written, and with nothing to write, too.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pace.finish();
        if self.state.is_broken.load(Relaxed) {
            return Poll::Ready(Err(ErrorKind::ConnectionAborted.into()));
        }
        // After an answer nothing else may come that would look at the time.
        if let Poll::Ready(error) = self.poll_overdue(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
