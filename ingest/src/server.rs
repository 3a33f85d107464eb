//! Server: one thread and one accepting socket per core.
//!
//! Every core binds the same address and the kernel spreads connections over them
//! (`connection::listener`); `connection::worker` serves those of one core.

use crate::config::ServerConfig;
use crate::connection::listener::{StartError, listen};
use crate::connection::startup::StartupListener;
use crate::connection::worker;
use crate::metrics;
use crate::process::{Deps, ProcessState};
use crate::readiness::Readiness;
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Handle to a running server.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    stop: watch::Sender<bool>,
    /// Closed when the last worker has ended.
    workers_gone: mpsc::Receiver<()>,
    threads: Vec<JoinHandle<()>>,
    readiness: Readiness,
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
        let process = Arc::new(ProcessState::new(config, deps));
        let (stop, stopped) = watch::channel(false);
        let (alive, workers_gone) = mpsc::channel(1);
        let mut threads = Vec::with_capacity(listeners.len());
        for (number, listener) in listeners.into_iter().enumerate() {
            let (process, stopped, alive) = (Arc::clone(&process), stopped.clone(), alive.clone());
            let thread = std::thread::Builder::new().name(format!("ingest-{number}"));
            let thread = thread.spawn(move || {
                worker::run(process, listener, stopped);
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
