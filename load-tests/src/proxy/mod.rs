//! A proxy between a server and its ClickHouse that injects faults.
//!
//! The proxy passes HTTP/1.1 through until a [`Rule`] is set. It then does the rule's [`Fault`] to
//! the requests that the rule covers, until another rule is set or all are lifted. Faults are
//! counted, so that a test waits for a number of faults and never for a time.
//!
//! - Each request has a connection to ClickHouse of its own, so that a broken one breaks nothing
//!   else.
//! - Bodies are streamed; memory does not grow with them, unless they are recorded, or answers are
//!   repeated.
//! - While [`Fault::Down`] lasts the port stays reserved: a second socket is bound to it without
//!   listening, so that nobody else gets it and clients are refused.

mod exchange;
mod fault;
mod limit;
mod listener;
mod recording;
mod script;
mod shared;
mod stale;

pub use fault::{CannedResponse, Fault, RequestKind, Rule};
pub use recording::Insert;
pub use script::Step;

use crate::runtime::current_thread_runtime;
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use recording::Recording;
use shared::{Active, Shared};
use stale::StaleAnswers;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tokio::sync::{oneshot, watch};

/// A running proxy, on a thread of its own; stops when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Counts of a proxy since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accepted connections.
    pub connections: u64,
    /// Requests with a complete head.
    pub requests: u64,
    /// Requests that inserted rows.
    pub inserts: u64,
    /// Requests with a fault.
    pub faults: u64,
}

impl Proxy {
    /// Starts a proxy on `listen` (port 0 takes a free port) that passes requests to ClickHouse's
    /// HTTP interface at `upstream`, such as `http://127.0.0.1:8123`.
    ///
    /// # Errors
    /// `upstream` is no such URL, or the address is not available.
    pub fn start(listen: SocketAddr, upstream: &str) -> Result<Self> {
        let runtime = current_thread_runtime()?;
        let shared = Arc::new(Shared {
            upstream: Mutex::new(authority(upstream)?),
            rule: watch::Sender::new(None),
            recording: Mutex::new(None),
            stale_answers: StaleAnswers::default(),
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            inserts: AtomicU64::new(0),
            faults: AtomicU64::new(0),
        });
        let port =
            listener::Port::take(listen).with_context(|| format!("cannot listen on {listen}"))?;
        let address = port.address();
        let listener = {
            let _entered = runtime.enter();
            port.listen()?
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let tasks = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = listener::serve(&port, listener, &tasks) => {}
                        _ = stopped => {}
                    }
                });
            })
            .context("cannot start a thread")?;
        Ok(Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Address that the proxy listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL of the proxy, to be used as ClickHouse's.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Passes requests to another ClickHouse from now on.
    ///
    /// # Errors
    /// `upstream` is no such URL.
    pub fn set_upstream(&self, upstream: &str) -> Result<()> {
        *self.shared.upstream() = authority(upstream)?;
        Ok(())
    }

    /// Puts a rule in force, in place of the previous one.
    pub fn set(&self, rule: Rule) {
        let active = Active {
            rule,
            covered: AtomicU64::new(0),
        };
        self.shared.stale_answers.clear();
        self.shared.rule.send_replace(Some(Arc::new(active)));
    }

    /// Lifts the rule; everything passes.
    pub fn lift(&self) {
        self.shared.rule.send_replace(None);
    }

    /// Starts recording stored inserts whose statements contain `of`, up to about `bytes_max`
    /// bytes. Inserts with a fault are not recorded.
    pub fn record(&self, of: &str, bytes_max: usize) {
        *self.shared.recording() = Some(Recording::new(of, bytes_max));
    }

    /// Ends the recording and returns the inserts in the order in which they were stored.
    #[must_use]
    pub fn recorded(&self) -> Vec<Insert> {
        let recording = self.shared.recording().take();
        recording.map_or_else(Vec::new, |recording| recording.kept)
    }

    /// Counts since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Acquire);
        Counts {
            connections: read(&self.shared.connections),
            requests: read(&self.shared.requests),
            inserts: read(&self.shared.inserts),
            faults: read(&self.shared.faults),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// Authority of ClickHouse's URL, `host:port`.
fn authority(url: &str) -> Result<String> {
    let target = Target::parse(url)?;
    ensure!(!target.tls, "{url:?}: no TLS is spoken to ClickHouse");
    Ok(target.authority)
}
