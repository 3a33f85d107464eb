//! Server: one thread and one accepting socket per core.
//!
//! Every core binds the same address and the kernel spreads connections over them (`listen`);
//! `worker` serves those of one core.

use crate::budget::Budget;
use crate::config::ServerConfig;
use crate::connection_limiter::ConnectionLimiter;
use crate::core::{Deps, Shared};
use crate::http::OffloadPool;
use crate::listen::listen;
use crate::month_limiter::MonthLimiter;
use crate::request_dedup::RequestDedupCache;
use crate::startup::StartupListener;
use crate::{metrics, worker};
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{mpsc, watch};

/// Reason why the server could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Another process listens at the address.
    #[error(
        "cannot listen on {addr}: another process listens there; stop it or choose another port"
    )]
    AddressInUse {
        /// The address.
        addr: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A worker's thread or runtime could not be made.
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
}

/// Handle to a running server.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    stop: watch::Sender<bool>,
    /// Closed when the last worker has ended.
    workers_gone: mpsc::Receiver<()>,
    threads: Vec<JoinHandle<()>>,
    readiness: crate::health::Readiness,
    drain: Duration,
}

// === impl Server ===

impl Server {
    /// Listens and serves, until [`Server::run`]'s `shutdown` or until dropped.
    ///
    /// # Errors
    /// When the address cannot be listened on, or a thread cannot be made.
    pub fn start(config: ServerConfig, deps: Deps) -> Result<Self, StartError> {
        let listeners = listen(config.addr, config.workers.max(1))?;
        Self::start_on(listeners, config, deps)
    }

    /// Serves on the sockets of a [`StartupListener`], with the connections that wait there. The
    /// address and the number of workers are those that it was started with.
    ///
    /// # Errors
    /// When a thread cannot be made.
    pub async fn start_after(
        startup: StartupListener,
        config: ServerConfig,
        deps: Deps,
    ) -> Result<Self, StartError> {
        Self::start_on(startup.into_listeners().await, config, deps)
    }

    /// Starts a worker for each of the sockets.
    fn start_on(
        listeners: Vec<TcpListener>,
        config: ServerConfig,
        deps: Deps,
    ) -> Result<Self, StartError> {
        metrics::describe();
        if millrace_browser::version().is_none() {
            tracing::info!(
                "built without posthog-js: pages cannot load it from here; `make build` builds it in"
            );
        }
        let failed = |source| StartError::Listen {
            addr: config.addr,
            source,
        };
        let first = listeners.first().map(TcpListener::local_addr);
        let addr = first.transpose().map_err(failed)?.unwrap_or(config.addr);
        let (readiness, drain) = (deps.readiness.clone(), config.drain);
        let limits = &config.limits;
        let shared = Arc::new(Shared {
            budget: Budget::new(limits.in_flight_bytes_max),
            connection_limiter: ConnectionLimiter::new(
                limits.connections_max,
                limits.connections_per_address_max,
            ),
            request_dedup: RequestDedupCache::new(),
            offload_pool: Arc::new(OffloadPool::new(config.workers, &config.limits)),
            month_limiter: MonthLimiter::default(),
            config,
            deps,
        });
        let (stop, stopped) = watch::channel(false);
        let (alive, workers_gone) = mpsc::channel(1);
        let mut threads = Vec::with_capacity(listeners.len());
        for (number, listener) in listeners.into_iter().enumerate() {
            let (shared, stopped, alive) = (Arc::clone(&shared), stopped.clone(), alive.clone());
            let thread = std::thread::Builder::new().name(format!("ingest-{number}"));
            let thread = thread.spawn(move || {
                worker::run(shared, listener, stopped);
                drop(alive);
            });
            threads.push(thread.map_err(StartError::Worker)?);
        }
        Ok(Self {
            addr,
            stop,
            workers_gone,
            threads,
            readiness,
            drain,
        })
    }

    /// Address listened on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until `shutdown`, then drains: readiness falls and every response says `Connection:
    /// close`; after [`ServerConfig::drain`] there are no new connections; requests in flight are
    /// finished; after the grace period the rest is cut.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        tokio::select! {
            () = shutdown => {}
            // Every worker ended by itself: only a panic does that.
            _ = self.workers_gone.recv() => {}
        }
        self.readiness.shut_down();
        tokio::select! {
            () = tokio::time::sleep(self.drain) => {}
            _ = self.workers_gone.recv() => {}
        }
        // Fails when no worker is left.
        let _ = self.stop.send(true);
        while self.workers_gone.recv().await.is_some() {}
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a worker panicked");
            }
        }
    }
}
