//! What the socket and the handlers of one connection know of it.

use crate::config::ServerConfig;
use crate::turns::Flow;
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Idle,
    Head,
    Busy,
}

/// What the socket and the handlers of one connection tell each other.
#[derive(Debug)]
pub struct Conn {
    /// Who is at the other end.
    pub peer: IpAddr,
    /// Whose its last request was; unknown for ever if it is a proxy's, which stands for many.
    flow: Cell<Flow>,
    is_proxy: bool,
    pub(super) state: Cell<State>,
    /// When `Idle` or `Head` has lasted too long.
    pub(super) deadline: Cell<Instant>,
    /// Something of the current request or of a head has been read.
    pub(super) heard: Cell<bool>,
    /// Requests that a handler has had.
    begun: Cell<u64>,
    /// The first request whose head had both a length and a transfer encoding.
    pub(super) first_ambiguous: Cell<Option<u64>>,
    /// A part of the next head came with the request before it.
    pub(super) within_head: Cell<bool>,
    pub(super) linger: Cell<bool>,
    header_timeout: Duration,
    idle_timeout: Duration,
}

// === impl Conn ===

impl Conn {
    /// A connection that was just accepted; its first head is due within the header timeout.
    pub fn new(peer: IpAddr, config: &ServerConfig) -> Rc<Self> {
        let limits = &config.limits;
        Rc::new(Self {
            peer,
            flow: Cell::new(Flow::UNKNOWN),
            is_proxy: config.trusts(peer),
            state: Cell::new(State::Idle),
            deadline: Cell::new(Instant::now() + limits.header_timeout),
            heard: Cell::new(false),
            begun: Cell::new(0),
            first_ambiguous: Cell::new(None),
            within_head: Cell::new(false),
            linger: Cell::new(false),
            header_timeout: limits.header_timeout,
            idle_timeout: limits.idle_timeout,
        })
    }

    /// Something came: if nothing was under way, a head has begun.
    pub(super) fn hear(&self) {
        if self.state.get() == State::Idle {
            self.heard.set(true);
            self.state.set(State::Head);
            self.deadline.set(Instant::now() + self.header_timeout);
        }
    }

    /// A handler has the request. Whether its head had both a length and a transfer encoding.
    pub fn begin(&self) -> bool {
        self.state.set(State::Busy);
        self.begun.set(self.begun.get() + 1);
        self.first_ambiguous.get() == Some(self.begun.get())
    }

    /// Whose the next request probably is.
    pub fn flow(&self) -> Flow {
        self.flow.get()
    }

    /// A request was of this project.
    pub fn was_of(&self, key: &str) {
        if !self.is_proxy {
            self.flow.set(Flow::of_key(key.as_bytes()));
        }
    }

    /// The answer is ready.
    pub fn end(&self) {
        let (state, timeout) = if self.within_head.get() {
            (State::Head, self.header_timeout)
        } else {
            (State::Idle, self.idle_timeout)
        };
        self.state.set(state);
        self.heard.set(state == State::Head);
        self.deadline.set(Instant::now() + timeout);
    }

    /// The body was not read to its end: once the connection is closed, what the client still
    /// sends has to be read, or the kernel would reset the connection and take the answer back.
    pub fn linger(&self) {
        self.linger.set(true);
    }
}
