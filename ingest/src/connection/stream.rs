//! Socket of one connection: timeouts, and checks that hyper lacks.
//!
//! | Phase | Means | Ends by |
//! |---|---|---|
//! | `Idle` | waiting for a request's first byte | a byte, or the idle timeout: closed |
//! | `Head` | a head has begun | the handler is called, or the header timeout: 408, at a stop 503 |
//! | `Busy` | a handler has the request; bodies are timed in `http::body` | the response is ready: `Idle` |
//!
//! hyper has one timeout for `Idle` and `Head` together and closes without a response; the contract
//! wants 75 s for the one and 10 s and a status for the other, so hyper's timeout is off and the
//! socket times itself. In `Idle` and `Head` the connection may be evicted for another one
//! ([`HeadWait`]). In every phase it measures the pace at which responses are read
//! ([`WritePace`]); while one waits for its client, that pace alone counts, and the time of the
//! phase begins when the response is written. The socket also keeps three promises that hyper does
//! not: a head with both a length and a transfer encoding is reported (hyper drops the length
//! before handlers see it), hyper's own responses to unreadable heads get the JSON body that all
//! errors have, and a connection closed before its body was read lingers until the client has had
//! time to read the response.

use super::framing::Framing;
use super::head_wait::HeadWait;
use super::raw_response::{raw_error_response, raw_rejection};
use super::state::{ConnectionPhase, ConnectionState};
use super::transport::Transport;
use super::write_pace::WritePace;
use crate::admission::early_reject::{AdmissionControl, EarlyReject};
use crate::admission::rejection::Rejection;
use crate::config::HttpLimits;
use crate::metrics;
use millrace_pipeline::Refusal;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Bytes that a lingering connection reads.
const LINGER_BYTES_MAX: usize = 64 << 20;
/// `Retry-After` of a head that did not come to its end before the process stopped.
const STOP_RETRY_AFTER_SECONDS: u32 = 3;

/// Socket with timeouts for each phase of its connection.
#[derive(Debug)]
pub struct TimedStream<S> {
    socket: S,
    conn: Rc<ConnectionState>,
    framing: Framing,
    early_reject: EarlyReject,
    head_wait: Arc<HeadWait>,
    timer: Option<Pin<Box<Sleep>>>,
    write_pace: WritePace,
    /// Time at which our side was closed.
    shut_at: Option<Instant>,
    lingered_bytes: usize,
}

// === impl TimedStream ===

impl<S: Transport> TimedStream<S> {
    /// Wraps `socket` on behalf of `conn`.
    pub fn new(
        socket: S,
        conn: Rc<ConnectionState>,
        admission: Rc<dyn AdmissionControl>,
        head_wait: Arc<HeadWait>,
        limits: &HttpLimits,
    ) -> Self {
        Self {
            socket,
            conn,
            framing: Framing::default(),
            early_reject: EarlyReject::new(admission),
            head_wait,
            timer: None,
            write_pace: WritePace::new(limits),
            shut_at: None,
            lingered_bytes: 0,
        }
    }

    fn received(&mut self, bytes: &[u8]) {
        self.head_wait.end();
        self.conn.note_bytes();
        self.framing.feed(bytes);
        self.conn.within_head.set(self.framing.is_within_head());
        self.conn
            .first_ambiguous
            .set(self.framing.first_ambiguous());
    }

    /// Reads bytes for hyper, behind requests that are rejected early. Those that are encrypted
    /// cannot be: they are read and rejected by the handlers.
    fn poll_read_socket(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if S::IS_PLAIN {
            let at_head = self.conn.phase.get() == ConnectionPhase::Idle
                && self.framing.is_between_requests();
            ready!(
                self.early_reject
                    .poll(self.socket.tcp(), &self.conn, at_head, cx)
            )?;
        }
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }

    /// Polls the deadline of the connection's phase; ready with an error once it has passed, or the
    /// connection is evicted. Neither counts while a response waits for its client, which may read
    /// it for longer than that.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if self.conn.phase.get() == ConnectionPhase::Busy || self.write_pace.is_waiting() {
            return Poll::Pending;
        }
        if self.head_wait.begin(cx.waker()) {
            self.write_timeout_error();
            return Poll::Ready(io::ErrorKind::ConnectionAborted.into());
        }
        let deadline = self.conn.deadline.get();
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline.into())));
        // A deadline that moved later is noticed when the timer fires; nearly always, the next
        // request is there before, and the timer need not be touched.
        if timer.deadline() > deadline.into() {
            timer.as_mut().reset(deadline.into());
        }
        while timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline {
                self.write_timeout_error();
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            timer.as_mut().reset(deadline.into());
        }
        Poll::Pending
    }

    /// Follows what became of a write: a peer that reads too slowly is given up.
    fn after_write(
        &mut self,
        written: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => self.write_pace.wrote(bytes),
            Poll::Pending if self.write_pace.poll_stall(cx).is_ready() => {
                metrics::timed_out("response");
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            Poll::Ready(Err(_)) | Poll::Pending => {}
        }
        written
    }

    /// Gives a peer up that does not take what the socket still has to write.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.after_write(Poll::Pending, cx).map_ok(drop)
    }

    fn write_timeout_error(&mut self) {
        if self.conn.phase.get() != ConnectionPhase::Head || !self.conn.has_bytes.get() {
            return;
        }
        metrics::timed_out("head");
        if self.conn.is_stopping.get() {
            let stopping = Rejection::Pipeline(Refusal::ShuttingDown);
            let error = stopping.into_error(STOP_RETRY_AFTER_SECONDS);
            return self.write_raw(&raw_rejection(&error));
        }
        self.write_error(
            "408 Request Timeout",
            "request_timeout",
            "The request's head arrived too slowly.",
        );
    }

    /// Writes an error without hyper, if the socket takes it at once.
    fn write_error(&mut self, status: &str, code: &str, detail: &str) {
        self.write_raw(&raw_error_response(status, code, detail, ""));
    }

    fn write_raw(&mut self, response: &[u8]) {
        // A peer that does not take a few hundred bytes does not read responses.
        self.socket.write_at_once(response);
    }

    /// Replaces hyper's own response to a head that it cannot read by one with an error body, and
    /// returns true if it did. Such a response comes while no handler has the request, and is the
    /// only one without a body.
    fn replace_empty_error(&mut self, bytes: &[u8]) -> bool {
        if self.conn.phase.get() == ConnectionPhase::Busy || !bytes.starts_with(b"HTTP/1.1 4") {
            return false;
        }
        if memchr::memmem::find(bytes, b"\r\ncontent-length: 0\r\n").is_none() {
            return false;
        }
        self.conn.linger();
        match bytes.get(9..12) {
            Some(b"431") => self.write_error(
                "431 Request Header Fields Too Large",
                "headers_too_large",
                "The request's head is too large or has too many fields.",
            ),
            Some(b"414") => self.write_error(
                "414 URI Too Long",
                "uri_too_long",
                "Send events in the body.",
            ),
            _ => self.write_error(
                "400 Bad Request",
                "malformed_request",
                "This is not an HTTP/1.1 request.",
            ),
        }
        true
    }

    /// Reads and discards until the peer closes, for a bounded time since `shut_at` and size.
    fn poll_linger(&mut self, shut_at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let end = shut_at + self.conn.linger_time.get();
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end.into())));
        // A stop of the process makes it shorter.
        if timer.deadline() > end.into() {
            timer.as_mut().reset(end.into());
        }
        let mut scratch = [0; 16 << 10];
        // What comes is not looked at, so it need not be decrypted.
        let tcp = self.socket.tcp();
        loop {
            if timer.as_mut().poll(cx).is_ready() || self.lingered_bytes > LINGER_BYTES_MAX {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut *tcp).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    self.lingered_bytes += buffer.filled().len();
                }
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
    }
}

impl<S: Transport> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match self.poll_read_socket(cx, buf) {
            Poll::Ready(Ok(())) => {
                if let Some(bytes @ [_, ..]) = buf.filled().get(before..) {
                    self.received(bytes);
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.poll_deadline(cx).map(Err),
        }
    }
}

impl<S: Transport> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.replace_empty_error(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        self.early_reject.wrote(false);
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.after_write(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [only] = slices
            && self.replace_empty_error(only)
        {
            return Poll::Ready(Ok(only.len()));
        }
        self.early_reject.wrote(false);
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, slices);
        self.after_write(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes once all that it has is written. TLS may still have some of it.
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        if flushed.is_pending() {
            return self.poll_stalled(cx);
        }
        self.early_reject.wrote(true);
        if self.write_pace.finish() {
            self.conn.restart_deadline();
            // Nothing else may come that would poll it.
            if let Poll::Ready(error) = self.poll_deadline(cx) {
                return Poll::Ready(Err(error));
            }
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut_at = if let Some(shut_at) = self.shut_at {
            shut_at
        } else {
            let shut = Pin::new(&mut self.socket).poll_shutdown(cx);
            if shut.is_pending() {
                return self.poll_stalled(cx);
            }
            ready!(shut)?;
            self.timer = None;
            *self.shut_at.insert(Instant::now())
        };
        if self.conn.linger.get() {
            ready!(self.poll_linger(shut_at, cx));
        }
        Poll::Ready(Ok(()))
    }
}
