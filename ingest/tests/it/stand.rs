//! A server with everything behind it, in a directory of its own.

use crate::client::{Answer, Client};
use crate::rows::{Stored, read_rows};
use millrace_catalog::{BootstrapOptions, Catalog};
use millrace_ingest::keys::Keys;
use millrace_ingest::{Deps, Readiness, Server, ServerConfig, StartError};
use millrace_log::LogHandle;
use millrace_pipeline::{Ack, Pipeline, PipelineOptions};
use millrace_rows::{Micros, TestClock};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// The key that the recordings were made with.
pub const KEY: &str = "phc_recording0000000000000000000000000000000";

/// What the clock shows: 2026-11-20T14:38:00Z, when the recordings were made.
pub const NOW: Micros = Micros(1_795_185_480_000_000);

/// A running server.
pub struct Stand {
    pub addr: SocketAddr,
    pub clock: TestClock,
    pub readiness: Readiness,
    pub pipeline: Pipeline,
    logs: Vec<LogHandle>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _dir: tempfile::TempDir,
}

/// What a test may change before the start.
pub struct Options {
    pub server: ServerConfig,
    pub pipeline: PipelineOptions,
}

impl Stand {
    /// A server with the contract's limits.
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    /// A server with changes.
    pub fn with(change: impl FnOnce(&mut Options)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(dir.path());
        change(&mut options);
        Self::of(dir, options).unwrap()
    }

    /// A second server on the same address.
    pub fn rival(&self) -> Result<Self, StartError> {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(dir.path());
        options.server.addr = self.addr;
        Self::of(dir, options)
    }

    fn of(dir: tempfile::TempDir, options: Options) -> Result<Self, StartError> {
        let clock = TestClock::at(NOW);
        let (stop, stopped) = oneshot::channel();
        let (sender, receiver) = sync_channel(1);
        let database = format!(
            "sqlite://{}?mode=rwc",
            dir.path().join("catalog.db").display()
        );
        let (
            Options {
                server,
                pipeline: pipeline_options,
            },
            of_server,
        ) = (options, clock.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async move {
                let catalog = Catalog::open(&database).await.unwrap();
                let project = BootstrapOptions {
                    project_key: Some(KEY.to_owned()),
                    ..BootstrapOptions::default()
                };
                catalog.bootstrap(project).await.unwrap().unwrap();
                let (pipeline, mut running) = Pipeline::start(&pipeline_options).unwrap();
                let logs = running
                    .take_outputs()
                    .into_iter()
                    .map(|output| output.log)
                    .collect();
                let readiness = Readiness::new();
                let deps = Deps {
                    keys: Keys::new(catalog),
                    pipeline: pipeline.clone(),
                    clock: Arc::new(of_server),
                    readiness: readiness.clone(),
                };
                let server = match Server::start(server, deps) {
                    Ok(server) => server,
                    Err(error) => return sender.send(Err(error)).unwrap(),
                };
                let parts: (_, _, _, Vec<LogHandle>) = (server.addr(), readiness, pipeline, logs);
                sender.send(Ok(parts)).unwrap();
                server.run(async { drop(stopped.await) }).await;
                tokio::task::spawn_blocking(move || running.stop())
                    .await
                    .unwrap();
            });
        });
        let (addr, readiness, pipeline, logs) = receiver.recv().unwrap()?;
        let (stop, thread) = (Some(stop), Some(thread));
        Ok(Self {
            addr,
            clock,
            readiness,
            pipeline,
            logs,
            stop,
            thread,
            _dir: dir,
        })
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.addr)
    }

    /// Posts JSON on a new connection.
    pub fn post(&self, target: &str, body: impl AsRef<[u8]>) -> Answer {
        self.client().post(
            target,
            &[("Content-Type", "application/json")],
            body.as_ref(),
        )
    }

    /// All rows in both logs, in order.
    pub fn rows(&self) -> Stored {
        read_rows(&self.logs)
    }

    /// Asks the server to drain; [`Stand::join`] waits for it.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for the end of the drain.
    pub fn join(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take()
            && !std::thread::panicking()
        {
            thread.join().unwrap();
        }
    }
}

fn options(dir: &Path) -> Options {
    let mut server = ServerConfig::on(SocketAddr::from(([127, 0, 0, 1], 0)));
    server.workers = 2;
    server.grace = std::time::Duration::from_secs(10);
    Options {
        server,
        pipeline: PipelineOptions {
            log_dir: dir.join("log"),
            log_bytes_max: 1 << 30,
            segment_bytes: 4 << 20,
            queue_requests_max: 1_000,
            queue_bytes_max: 256 << 20,
            ack: Ack::Disk,
        },
    }
}

/// One good event.
pub fn event(name: &str) -> serde_json::Value {
    serde_json::json!({"event": name, "distinct_id": "d", "properties": {"n": 1},
        "timestamp": "2026-11-20T14:37:59Z"})
}

/// A batch of such events.
pub fn batch(names: &[&str]) -> String {
    let events: Vec<_> = names.iter().map(|name| event(name)).collect();
    serde_json::json!({"api_key": KEY, "batch": events}).to_string()
}
