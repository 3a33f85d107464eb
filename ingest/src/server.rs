//! Server: one thread and one accepting socket per core.
//!
//! Every core binds the same address and the kernel spreads connections over them
//! (`connection::listener`); `connection::worker` serves those of one core.

use crate::config::ServerConfig;
use crate::connection::listener::{StartError, listen};
use crate::connection::startup::StartupListener;
use crate::connection::stop_phase::StopPhase;
use crate::connection::worker::{self, WorkerError};
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
    stop: watch::Sender<StopPhase>,
    /// Has a message of each worker that has ended; closed when the last one has.
    workers_ended: mpsc::Receiver<()>,
    threads: Vec<JoinHandle<Result<(), WorkerError>>>,
    readiness: Readiness,
    drain: Duration,
}

/// Guard of a worker that reports its end, also by a panic.
struct WorkerGuard(mpsc::Sender<()>);

impl Drop for WorkerGuard {
    fn drop(&mut self) {
        // There is a place for each worker.
        let _ = self.0.try_send(());
    }
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
        let (stop, stopped) = watch::channel(StopPhase::Serving);
        let (ended, workers_ended) = mpsc::channel(listeners.len().max(1));
        let mut threads = Vec::with_capacity(listeners.len());
        for (number, listener) in listeners.into_iter().enumerate() {
            let (process, stopped) = (Arc::clone(&process), stopped.clone());
            let guard = WorkerGuard(ended.clone());
            let thread = std::thread::Builder::new().name(format!("ingest-{number}"));
            let thread = thread.spawn(move || {
                let _guard = guard;
                worker::run(process, listener, stopped)
            });
            threads.push(thread.map_err(StartError::Worker)?);
        }
        Ok(Self {
            addr,
            stop,
            workers_ended,
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
    /// finished, and those whose clients stall are answered 503; after the grace period the rest is
    /// cut. `cut_short` ends all of these waits. The others drain as well when a worker fails, so
    /// that the process can start anew.
    ///
    /// # Errors
    /// When a worker failed; the others have drained.
    pub async fn run(
        mut self,
        shutdown: impl Future<Output = ()>,
        cut_short: impl Future<Output = ()>,
    ) -> Result<(), WorkerError> {
        tokio::select! {
            () = shutdown => {}
            // Only a failure ends a worker before it is told to.
            _ = self.workers_ended.recv() => tracing::error!("a worker ended by itself"),
        }
        self.readiness.shut_down();
        let drained = async {
            tokio::select! {
                () = tokio::time::sleep(self.drain) => {}
                _ = self.workers_ended.recv() => {}
            }
            // Fails when no worker is left.
            let _ = self.stop.send(StopPhase::Draining);
            while self.workers_ended.recv().await.is_some() {}
        };
        let is_cut = tokio::select! {
            () = drained => false,
            () = cut_short => true,
        };
        if is_cut {
            let _ = self.stop.send(StopPhase::CutShort);
            while self.workers_ended.recv().await.is_some() {}
        }
        let threads = self.threads.into_iter();
        let ended = threads.map(|thread| thread.join().unwrap_or(Err(WorkerError::Panicked)));
        // Each is joined, also behind one that failed.
        let ended: Vec<_> = ended.collect();
        ended.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::deps;
    use std::fs::File;
    use std::io::Write;
    use std::net::TcpStream;
    use std::os::fd::OwnedFd;
    use std::pin::pin;
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    /// Time that is longer than it takes on a busy machine.
    const SOON: Duration = Duration::from_secs(20);
    /// Time that no test waits for.
    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn a_worker_that_ends_by_itself_ends_the_server_with_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (deps, running) = deps(dir.path()).await;
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listeners = listen(any, 1).unwrap();
        // No socket, so that the second worker cannot begin.
        let file = File::create(dir.path().join("file")).unwrap();
        listeners.push(TcpListener::from(OwnedFd::from(file)));
        let server = Server::start_on(listeners, ServerConfig::on(any), deps).unwrap();
        let run = server.run(std::future::pending(), std::future::pending());
        let ended = timeout(SOON, run).await;
        let ended = ended.expect("the first one goes on alone");
        assert!(ended.is_err(), "as if it had been told to stop");
        running.stop();
    }

    #[tokio::test]
    async fn a_stop_that_is_cut_short_waits_for_nobody() {
        // Within the drain, and within the grace period.
        for drain in [LONG, Duration::ZERO] {
            let dir = tempfile::tempdir().unwrap();
            let (deps, running) = deps(dir.path()).await;
            let mut config = ServerConfig::on(SocketAddr::from(([127, 0, 0, 1], 0)));
            (config.drain, config.grace) = (drain, LONG);
            config.limits.stop_stall_timeout = LONG;
            config.limits.body_stall_timeout = LONG;
            let server = Server::start(config, deps).unwrap();
            let mut client = TcpStream::connect(server.addr()).unwrap();
            let half = b"POST /e/ HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n{";
            client.write_all(half).unwrap();
            let (cut, is_cut) = oneshot::channel();
            let cut_short = async { drop(is_cut.await) };
            let mut run = pin!(server.run(std::future::ready(()), cut_short));
            let waited = timeout(Duration::from_millis(50), run.as_mut()).await;
            assert!(waited.is_err(), "it does not wait for the request");
            cut.send(()).unwrap();
            let ended = timeout(SOON, run).await;
            assert!(ended.expect("it waits on").is_ok());
            running.stop();
        }
    }
}
