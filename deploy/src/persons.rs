//! Persons and groups as a part of the process: on a thread and a runtime of their own, as large
//! steps must hold up neither the API nor exports.

use crate::background::give_way;
use crate::config::Config;
use crate::open;
use anyhow::Context;
use millrace_clickhouse::{ClickHouse, Settings};
use millrace_persons::{Worker, WorkerOptions};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Threads: a long step must not keep the lease from being extended.
const THREADS: usize = 2;
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The running worker; it ends with the process, or when it is stopped.
#[derive(Debug)]
pub struct Persons {
    stop: CancellationToken,
    ended: oneshot::Receiver<()>,
}

impl Persons {
    /// Starts the thread. The catalog must be migrated.
    ///
    /// # Errors
    /// When the system has no room for a thread.
    pub fn start(config: &Config, settings: &Settings) -> anyhow::Result<Self> {
        let clickhouse = ClickHouse::new(settings);
        let (stop, config) = (CancellationToken::new(), config.clone());
        let (end, ended) = oneshot::channel();
        let stopped = stop.clone();
        std::thread::Builder::new()
            .name("persons".to_owned())
            .spawn(move || {
                // Threads that are made from here have it, too.
                give_way();
                if let Err(error) = serve(&config, clickhouse, &stopped) {
                    tracing::error!(error = format!("{error:#}"), "persons are not kept");
                }
                // Nobody waits for it where the process ends otherwise.
                let _ = end.send(());
            })?;
        Ok(Self { stop, ended })
    }

    /// Ends the step that is under way, and gives the lease back.
    pub async fn stop(self) {
        self.stop.cancel();
        // An error is a thread that has ended already.
        drop(self.ended.await);
    }
}

fn serve(
    config: &Config,
    clickhouse: ClickHouse,
    stopped: &CancellationToken,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("persons")
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        let catalog = open::catalog(config).await?;
        let options = WorkerOptions {
            kept: DAY * config.person_updates_kept_days,
            ..WorkerOptions::default()
        };
        let worker = Worker::new(catalog, clickhouse, options);
        worker.run(stopped.cancelled()).await;
        Ok(())
    });
    runtime.shutdown_background();
    outcome
}
