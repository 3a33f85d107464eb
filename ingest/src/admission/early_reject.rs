//! Early reject: answers requests that cannot be stored before they are read.
//!
//! A core that is overloaded must not spend itself on rejecting requests. What costs most is the
//! kernel's copy of a body that nobody looks at, and hyper. So while the core is overloaded, the
//! beginning of a request is looked at where it lies in the kernel; if the request has to be
//! retried later, it is answered here, and the kernel throws its bytes away uncopied (`MSG_TRUNC`,
//! tcp(7)). The connection goes on with the request behind it. Heads that are not plain are left to
//! hyper.

use crate::connection::state::ConnectionState;
use crate::scheduling::flow::Flow;
use rustix::net::{RecvFlags, recv};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{Interest, ReadBuf};
use tokio::net::TcpStream;

/// Bytes of a request that are peeked at.
const PEEK_BYTES: usize = 2 << 10;
/// Bytes that are discarded in one call.
const DISCARD_BYTES: usize = 256 << 10;

thread_local! {
    /// Buffer for discarded bytes; the kernel writes nothing to it.
    static DISCARD_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; DISCARD_BYTES]);
}

/// Decides whether a request is served or rejected early.
pub trait AdmissionControl {
    /// Returns true if requests may have to be rejected.
    fn is_overloaded(&self) -> bool;
    /// Rejection of a request that begins like this, on a connection whose last request was of
    /// `last_flow`; `None` if the request is to be served.
    fn reject(&self, last_flow: Flow, beginning: &[u8]) -> Option<RejectedRequest>;
}

/// Request that was rejected early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRequest {
    /// Bytes of the whole response.
    pub response: Vec<u8>,
    /// Bytes of the request, head and body.
    pub request_bytes: usize,
}

/// Early reject of one connection.
pub struct EarlyReject {
    admission: Rc<dyn AdmissionControl>,
    /// Bytes of a rejected request that are still to come.
    bytes_to_discard: usize,
    /// True while output of hyper's may be unflushed: nothing may be written in between.
    unflushed: bool,
}

// === impl EarlyReject ===

impl EarlyReject {
    pub fn new(admission: Rc<dyn AdmissionControl>) -> Self {
        Self {
            admission,
            bytes_to_discard: 0,
            unflushed: false,
        }
    }

    /// Notes that hyper wrote something, or has flushed all of it.
    pub fn wrote(&mut self, flushed: bool) {
        self.unflushed = !flushed;
    }

    /// Rejects requests until one is for hyper, and is ready then. `at_head` says whether the next
    /// byte is the first of a request.
    pub fn poll(
        &mut self,
        tcp: &mut TcpStream,
        conn: &ConnectionState,
        at_head: bool,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.bytes_to_discard > 0 {
                ready!(self.poll_discard(tcp, cx))?;
                conn.end();
            }
            if !at_head || self.unflushed || !self.admission.is_overloaded() {
                return Poll::Ready(Ok(()));
            }
            let mut beginning = [0; PEEK_BYTES];
            let mut beginning = ReadBuf::new(&mut beginning);
            ready!(tcp.poll_peek(cx, &mut beginning))?;
            let Some(rejected) = self.admission.reject(conn.flow(), beginning.filled()) else {
                return Poll::Ready(Ok(()));
            };
            if tcp.try_write(&rejected.response)? < rejected.response.len() {
                // A peer that does not take a few hundred bytes does not read responses.
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.bytes_to_discard = rejected.request_bytes;
            conn.end();
        }
    }

    /// Discards the rest of a request. Stops at the end of the stream, which hyper sees, too.
    fn poll_discard(&mut self, tcp: &mut TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.bytes_to_discard > 0 {
            ready!(tcp.poll_read_ready(cx))?;
            let discarded = tcp.try_io(Interest::READABLE, || {
                DISCARD_BUFFER.with_borrow_mut(|buffer| {
                    let some = buffer.get_mut(..self.bytes_to_discard.min(DISCARD_BYTES));
                    let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
                    let (_, bytes) = recv(&*tcp, some.unwrap_or_default(), flags)?;
                    Ok(bytes)
                })
            });
            match discarded {
                Ok(0) => self.bytes_to_discard = 0,
                Ok(bytes) => self.bytes_to_discard = self.bytes_to_discard.saturating_sub(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl std::fmt::Debug for EarlyReject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EarlyReject")
            .field("bytes_to_discard", &self.bytes_to_discard)
            .finish_non_exhaustive()
    }
}
