//! Requests that cannot be stored, told so before anything of them is read.
//!
//! A core that has more to do than it can must not spend itself on sending requests away. What that
//! costs is the kernel's copy of a body that nobody looks at, and hyper. So while the core is crowded,
//! the beginning of a request is looked at where it lies in the kernel; if it has to come again later,
//! it is answered here, and its bytes are thrown away there, uncopied (`MSG_TRUNC`, tcp(7)). The
//! connection goes on with the request behind it. Whatever is not plain in a head is left to hyper.

use crate::edge::Conn;
use rustix::net::{RecvFlags, recv};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{Interest, ReadBuf};
use tokio::net::TcpStream;

/// Bytes of a request that are looked at.
const BEGINNING_BYTES: usize = 2 << 10;
/// Bytes that are thrown away in one call.
const DISCARD_BYTES: usize = 256 << 10;

thread_local! {
    /// Where discarded bytes would go; the kernel writes nothing there.
    static NOWHERE: RefCell<Vec<u8>> = RefCell::new(vec![0; DISCARD_BYTES]);
}

/// Who decides.
pub trait Doorkeeper {
    /// Whether requests may have to be sent away.
    fn is_crowded(&self) -> bool;
    /// What a request that begins like this is told, if it is sent away.
    fn refuse(&self, conn: &Conn, beginning: &[u8]) -> Option<Refused>;
}

/// A request that was sent away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The whole answer.
    pub answer: Vec<u8>,
    /// Bytes of the request, head and body.
    pub request_bytes: usize,
}

/// The door of one connection.
pub struct Door {
    keeper: Rc<dyn Doorkeeper>,
    /// Bytes of a request that was sent away which are still to come.
    left: usize,
    /// Something of hyper's may still be on its way out: we must not come in between.
    unflushed: bool,
}

// === impl Door ===

impl Door {
    pub fn new(keeper: Rc<dyn Doorkeeper>) -> Self {
        Self {
            keeper,
            left: 0,
            unflushed: false,
        }
    }

    /// hyper wrote something, or has brought all of it on its way.
    pub fn wrote(&mut self, flushed: bool) {
        self.unflushed = !flushed;
    }

    /// Sends away who has to go. Ready when what comes next is for hyper; `at_head` says whether
    /// that is the first byte of a request.
    pub fn poll(
        &mut self,
        tcp: &mut TcpStream,
        conn: &Conn,
        at_head: bool,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.left > 0 {
                ready!(self.poll_discard(tcp, cx))?;
                conn.end();
            }
            if !at_head || self.unflushed || !self.keeper.is_crowded() {
                return Poll::Ready(Ok(()));
            }
            let mut beginning = [0; BEGINNING_BYTES];
            let mut beginning = ReadBuf::new(&mut beginning);
            ready!(tcp.poll_peek(cx, &mut beginning))?;
            let Some(refused) = self.keeper.refuse(conn, beginning.filled()) else {
                return Poll::Ready(Ok(()));
            };
            if tcp.try_write(&refused.answer)? < refused.answer.len() {
                // A peer that does not take a few hundred bytes does not read answers.
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.left = refused.request_bytes;
            conn.end();
        }
    }

    /// Throws away what is left of a request. At the end of the stream it stops: hyper sees that, too.
    fn poll_discard(&mut self, tcp: &mut TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.left > 0 {
            ready!(tcp.poll_read_ready(cx))?;
            let discarded = tcp.try_io(Interest::READABLE, || {
                NOWHERE.with_borrow_mut(|nowhere| {
                    let some = nowhere.get_mut(..self.left.min(DISCARD_BYTES));
                    let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
                    let (_, bytes) = recv(&*tcp, some.unwrap_or_default(), flags)?;
                    Ok(bytes)
                })
            });
            match discarded {
                Ok(0) => self.left = 0,
                Ok(bytes) => self.left = self.left.saturating_sub(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
