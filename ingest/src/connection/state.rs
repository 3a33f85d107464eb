//! State of one connection, shared by its socket and its handlers.

use crate::config::ServerConfig;
use crate::scheduling::flow::Flow;
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Phase of a connection, which decides its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionPhase {
    Idle,
    Head,
    Busy,
}

/// State that the socket and the handlers of one connection share.
#[derive(Debug)]
pub struct ConnectionState {
    /// Address of the peer.
    pub peer: IpAddr,
    /// Flow of its last request; always unknown for a proxy, which speaks for many clients.
    flow: Cell<Flow>,
    is_proxy: bool,
    pub(super) phase: Cell<ConnectionPhase>,
    /// Time at which `Idle` or `Head` has lasted too long.
    pub(super) deadline: Cell<Instant>,
    /// True once a byte of the current request or of a head was read.
    pub(super) has_bytes: Cell<bool>,
    /// Number of requests that a handler has had.
    begun: Cell<u64>,
    /// Number of the first request whose head had both a length and a transfer encoding.
    pub(super) first_ambiguous: Cell<Option<u64>>,
    /// True if a part of the next head came with the request before it.
    pub(super) within_head: Cell<bool>,
    pub(super) linger: Cell<bool>,
    header_timeout: Duration,
    idle_timeout: Duration,
}

// === impl ConnectionState ===

impl ConnectionState {
    /// Returns the state of a connection that was just accepted; its first head is due within the
    /// header timeout.
    pub fn new(peer: IpAddr, config: &ServerConfig) -> Rc<Self> {
        let limits = &config.limits;
        Rc::new(Self {
            peer,
            flow: Cell::new(Flow::UNKNOWN),
            is_proxy: config.trusts(peer),
            phase: Cell::new(ConnectionPhase::Idle),
            deadline: Cell::new(Instant::now() + limits.header_timeout),
            has_bytes: Cell::new(false),
            begun: Cell::new(0),
            first_ambiguous: Cell::new(None),
            within_head: Cell::new(false),
            linger: Cell::new(false),
            header_timeout: limits.header_timeout,
            idle_timeout: limits.idle_timeout,
        })
    }

    /// Notes that bytes came: if no request was under way, a head has begun.
    pub(super) fn note_bytes(&self) {
        if self.phase.get() == ConnectionPhase::Idle {
            self.has_bytes.set(true);
            self.phase.set(ConnectionPhase::Head);
            self.deadline.set(Instant::now() + self.header_timeout);
        }
    }

    /// Notes that a handler has the request. Returns true if its head had both a length and a
    /// transfer encoding.
    pub fn begin(&self) -> bool {
        self.phase.set(ConnectionPhase::Busy);
        self.begun.set(self.begun.get() + 1);
        self.first_ambiguous.get() == Some(self.begun.get())
    }

    /// Flow that the next request probably belongs to.
    pub fn flow(&self) -> Flow {
        self.flow.get()
    }

    /// Notes that the last request was for the project with this key.
    pub fn note_project(&self, key: &str) {
        if !self.is_proxy {
            self.flow.set(Flow::of_key(key.as_bytes()));
        }
    }

    /// Notes that the response is ready.
    pub fn end(&self) {
        let phase = if self.within_head.get() {
            ConnectionPhase::Head
        } else {
            ConnectionPhase::Idle
        };
        self.phase.set(phase);
        self.has_bytes.set(phase == ConnectionPhase::Head);
        self.restart_deadline();
    }

    /// Gives the present phase its whole time from now on; `Busy` has none.
    pub(super) fn restart_deadline(&self) {
        let timeout = match self.phase.get() {
            ConnectionPhase::Idle => self.idle_timeout,
            ConnectionPhase::Head => self.header_timeout,
            ConnectionPhase::Busy => return,
        };
        self.deadline.set(Instant::now() + timeout);
    }

    /// Makes the connection linger, as the body was not read to its end: once it is closed, what
    /// the client still sends has to be read, or the kernel would reset the connection and the
    /// response would be lost.
    pub fn linger(&self) {
        self.linger.set(true);
    }
}
