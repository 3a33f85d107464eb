//! State of one connection, shared by its socket and its handlers.

use crate::config::ServerConfig;
use crate::scheduling::flow::Flow;
use millrace_parse::KeyLookup;
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Time for which a closed connection goes on reading what the client still sends.
const LINGER: Duration = Duration::from_secs(5);

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
    /// Flow of its last request for a project that exists; always unknown for a proxy, which speaks
    /// for many clients.
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
    /// Time for which the connection lingers, at most.
    pub(super) linger_time: Cell<Duration>,
    /// True once the process stops.
    pub(super) is_stopping: Cell<bool>,
    header_timeout: Cell<Duration>,
    idle_timeout: Duration,
    stop_stall_timeout: Duration,
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
            linger_time: Cell::new(LINGER),
            is_stopping: Cell::new(false),
            header_timeout: Cell::new(limits.header_timeout),
            idle_timeout: limits.idle_timeout,
            stop_stall_timeout: limits.stop_stall_timeout,
        })
    }

    /// Notes that bytes came: if no request was under way, a head has begun.
    pub(super) fn note_bytes(&self) {
        if self.phase.get() == ConnectionPhase::Idle {
            self.has_bytes.set(true);
            self.phase.set(ConnectionPhase::Head);
            self.deadline
                .set(Instant::now() + self.header_timeout.get());
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

    /// Notes that the last request was for the project with this key, if the key is one: by made-up
    /// keys a client would get a flow, with turns and a part of the queue, for each connection.
    pub fn note_project(&self, key: &str, lookup: KeyLookup) {
        if !self.is_proxy && matches!(lookup, KeyLookup::Found(_)) {
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
            ConnectionPhase::Head => self.header_timeout.get(),
            ConnectionPhase::Busy => return,
        };
        self.deadline.set(Instant::now() + timeout);
    }

    /// Notes that the process stops: neither the rest of a head nor a client that keeps a closed
    /// connection open is waited for as long as otherwise. Bodies are timed in `http::body`.
    pub(super) fn note_stop(&self) {
        self.is_stopping.set(true);
        let time_max = self.stop_stall_timeout;
        self.linger_time.set(self.linger_time.get().min(time_max));
        let head_time = self.header_timeout.get().min(time_max);
        self.header_timeout.set(head_time);
        if self.phase.get() == ConnectionPhase::Head {
            let deadline = Instant::now() + head_time;
            self.deadline.set(self.deadline.get().min(deadline));
        }
    }

    /// Makes the connection linger, as the body was not read to its end: once it is closed, what
    /// the client still sends has to be read, or the kernel would reset the connection and the
    /// response would be lost.
    pub fn linger(&self) {
        self.linger.set(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_parse::Project;
    use millrace_rows::ProjectId;
    use std::net::SocketAddr;

    #[test]
    fn only_keys_of_projects_give_a_connection_a_flow_and_none_does_for_a_proxy() {
        let found = KeyLookup::Found(Project {
            id: ProjectId(1),
            anonymize_ips: false,
            ingested_event: true,
        });
        let of = |key: &str| Flow::of_key(key.as_bytes());
        let peer = IpAddr::from([192, 0, 2, 1]);
        let mut config = ServerConfig::on(SocketAddr::from(([127, 0, 0, 1], 0)));
        let conn = ConnectionState::new(peer, &config);
        for (key, lookup, expected) in [
            ("phc_made_up", KeyLookup::Unknown, Flow::UNKNOWN),
            ("phc_not_asked", KeyLookup::Missing, Flow::UNKNOWN),
            ("phc_project", found, of("phc_project")),
            ("phc_made_up", KeyLookup::Unknown, of("phc_project")),
            ("phc_not_asked", KeyLookup::Missing, of("phc_project")),
            ("phc_another", found, of("phc_another")),
        ] {
            conn.note_project(key, lookup);
            assert_eq!(conn.flow(), expected, "{key}");
        }
        config.trusted_proxies.push("192.0.2.0/24".parse().unwrap());
        let proxied = ConnectionState::new(peer, &config);
        proxied.note_project("phc_project", found);
        assert_eq!(proxied.flow(), Flow::UNKNOWN);
    }
}
