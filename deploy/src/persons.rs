//! Persons and groups as a part of the process: on a thread and a runtime of their own, as large
//! steps must hold up neither the API nor exports.

use crate::background::give_way;
use crate::config::Config;
use crate::open;
use anyhow::{Context, anyhow};
use millrace_clickhouse::{ClickHouse, Settings};
use millrace_persons::{Worker, WorkerOptions};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Threads: a long step must not keep the lease from being extended.
const THREADS: usize = 2;
/// When it is tried again to begin.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The running worker; it ends with the process, or when it is stopped.
#[derive(Debug)]
pub struct Persons {
    stop: CancellationToken,
    ended: oneshot::Receiver<anyhow::Result<()>>,
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
                let outcome = serve(&config, &clickhouse, &stopped);
                // Nobody waits for it where the process ends otherwise.
                let _ = end.send(outcome);
            })?;
        Ok(Self { stop, ended })
    }

    /// Waits until it ends by itself, which only a bug has it do; why it did.
    pub async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.ended).await {
            Ok(Err(error)) => error.context("the keeping of persons ended"),
            Ok(Ok(())) => anyhow!("the keeping of persons ended by itself"),
            Err(_) => anyhow!("the keeping of persons panicked"),
        }
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
    clickhouse: &ClickHouse,
    stopped: &CancellationToken,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("persons")
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let options = WorkerOptions {
        kept: DAY * config.person_updates_kept_days,
        new_ids_per_hour_max: config.new_distinct_ids_per_hour_max,
        merged_ids_max: config.merged_distinct_ids_max,
        ..WorkerOptions::default()
    };
    let outcome = runtime.block_on(async {
        let catalog = loop {
            match open::catalog(config).await {
                Ok(catalog) => break catalog,
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!(error, "persons are not kept; trying again");
                }
            }
            let pause = tokio::time::sleep(AGAIN_AFTER);
            if stopped.run_until_cancelled(pause).await.is_none() {
                return Ok(());
            }
        };
        let worker = Worker::new(catalog, clickhouse.clone(), options);
        worker.run(stopped.cancelled()).await
    });
    runtime.shutdown_background();
    Ok(outcome?)
}

#[cfg(test)]
impl Persons {
    /// Persons whose thread ends as the other half says.
    pub fn of_thread(ended: oneshot::Receiver<anyhow::Result<()>>) -> Self {
        let stop = CancellationToken::new();
        Self { stop, ended }
    }
}
