//! A proxy that stands between a server and its ClickHouse and does harm as it is told.
//!
//! It passes HTTP/1.1 through until a [`Rule`] is set, and does the rule's [`Fault`] to the
//! requests that it covers until another is set or all are lifted. What it did is counted, so
//! that a test waits for faults done and never for a time.
//!
//! - A connection to ClickHouse is made for each request, so that one that breaks breaks nothing
//!   else.
//! - Bodies are passed on as they come; memory does not grow with them, unless they are recorded.
//! - While [`Fault::Down`] lasts the port stays ours: a second socket is bound to it that does not
//!   listen, so that nobody else gets it and clients are refused.

mod exchange;
mod fault;
mod limit;
mod listener;
mod script;
mod tape;

pub use fault::{Fault, Given, Rule, Target};
pub use script::Step;
pub use tape::Insert;

use crate::plan;
use anyhow::{Context, Result, ensure};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tape::Tape;
use tokio::sync::{oneshot, watch};

/// A running proxy, on a thread of its own; stops when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What a proxy has done since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections accepted.
    pub connections: u64,
    /// Requests whose head came.
    pub requests: u64,
    /// Those of them that brought rows.
    pub inserts: u64,
    /// Requests that a fault was done to.
    pub faults: u64,
}

/// What the proxy's tasks share.
#[derive(Debug)]
struct Shared {
    /// ClickHouse, as `host:port`.
    upstream: Mutex<String>,
    rule: watch::Sender<Option<Arc<Active>>>,
    tape: Mutex<Option<Tape>>,
    connections: AtomicU64,
    requests: AtomicU64,
    inserts: AtomicU64,
    faults: AtomicU64,
}

/// A rule in force.
#[derive(Debug)]
struct Active {
    rule: Rule,
    /// Requests that it covered so far.
    covered: AtomicU64,
}

impl Proxy {
    /// Listens on `listen`, where port 0 takes a free one, and passes requests to ClickHouse's
    /// HTTP interface at `upstream`, like `http://127.0.0.1:8123`.
    ///
    /// # Errors
    /// `upstream` is no such URL, or the address cannot be had.
    pub fn start(listen: SocketAddr, upstream: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime")?;
        let shared = Arc::new(Shared {
            upstream: Mutex::new(authority(upstream)?),
            rule: watch::Sender::new(None),
            tape: Mutex::new(None),
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

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as ClickHouse's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on requests go there: ClickHouse has moved.
    ///
    /// # Errors
    /// `upstream` is no such URL.
    pub fn set_upstream(&self, upstream: &str) -> Result<()> {
        *self.shared.upstream() = authority(upstream)?;
        Ok(())
    }

    /// Puts a rule in force, in place of the one there was.
    pub fn set(&self, rule: Rule) {
        let active = Active {
            rule,
            covered: AtomicU64::new(0),
        };
        self.shared.rule.send_replace(Some(Arc::new(active)));
    }

    /// Lets everything through.
    pub fn lift(&self) {
        self.shared.rule.send_replace(None);
    }

    /// From now on keeps inserts with `of` in their statements that ClickHouse stored, about
    /// `bytes_max` bytes of them; not those that harm was done to.
    pub fn record(&self, of: &str, bytes_max: usize) {
        *self.shared.tape() = Some(Tape::new(of, bytes_max));
    }

    /// Ends the recording and gives what was kept, in the order in which it was stored.
    #[must_use]
    pub fn recorded(&self) -> Vec<Insert> {
        let tape = self.shared.tape().take();
        tape.map_or_else(Vec::new, |tape| tape.kept)
    }

    /// What it has done.
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

/// `host:port` of ClickHouse's URL.
fn authority(url: &str) -> Result<String> {
    let target = plan::Target::parse(url)?;
    ensure!(!target.tls, "{url:?}: no TLS is spoken to ClickHouse");
    Ok(target.authority)
}

impl Shared {
    fn upstream(&self) -> MutexGuard<'_, String> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tape(&self) -> MutexGuard<'_, Option<Tape>> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request and says what is to be done to it.
    fn fault(&self, is_insert: bool) -> Option<Fault> {
        self.requests.fetch_add(1, Ordering::AcqRel);
        if is_insert {
            self.inserts.fetch_add(1, Ordering::AcqRel);
        }
        let active = self.rule.borrow().clone()?;
        if !active.rule.target.covers(is_insert) {
            return None;
        }
        let number = active.covered.fetch_add(1, Ordering::AcqRel);
        number
            .is_multiple_of(active.rule.every)
            .then(|| active.rule.fault.clone())
    }

    fn is_down(rule: Option<&Active>) -> bool {
        rule.is_some_and(|active| active.rule.fault == Fault::Down)
    }
}
