//! Worker of persons and groups as a part of the process: on a thread and a runtime of its own, as
//! large steps must delay neither the API nor exports.

use crate::config::Config;
use crate::connect;
use crate::thread_priority::lower_priority;
use anyhow::{Context, anyhow};
use millrace_clickhouse::{ClickHouse, Settings};
use millrace_persons::{Worker, WorkerOptions};
use millrace_rows::RareLog;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Runtime threads: a long step must not keep the lease from being renewed.
const THREADS: usize = 2;
/// Timeout of a stop: a step reads from ClickHouse and writes to the catalog.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause between attempts to open the catalog.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Running worker of persons; it ends with the process, or when it is stopped.
#[derive(Debug)]
pub struct Persons {
    stop: CancellationToken,
    ended: oneshot::Receiver<anyhow::Result<()>>,
}

impl Persons {
    /// Starts the thread. The catalog must be migrated.
    ///
    /// # Errors
    /// When the system cannot start another thread.
    pub fn start(config: &Config, settings: &Settings) -> anyhow::Result<Self> {
        let clickhouse = ClickHouse::new(settings);
        let (stop, config) = (CancellationToken::new(), config.clone());
        let (end, ended) = oneshot::channel();
        let stopped = stop.clone();
        std::thread::Builder::new()
            .name("persons".to_owned())
            .spawn(move || {
                // Threads that are started from here inherit the priority.
                lower_priority();
                let outcome = serve(&config, &clickhouse, &stopped);
                // Nobody waits for the outcome if the process ends otherwise.
                let _ = end.send(outcome);
            })?;
        Ok(Self { stop, ended })
    }

    /// Waits until the worker ends by itself, which only a bug causes; returns the reason.
    pub async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.ended).await {
            Ok(Err(error)) => error.context("the application of person updates ended"),
            Ok(Ok(())) => anyhow!("the application of person updates ended by itself"),
            Err(_) => anyhow!("the application of person updates panicked"),
        }
    }

    /// Guard that stops the worker when it is dropped: it leads no more, and ends its step.
    pub fn stop_on_drop(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    /// Releases the lease, and finishes the current step. A step that takes too long is cut off
    /// with the process, as by a crash: its transaction is not committed.
    pub async fn stop(self) {
        self.stop.cancel();
        // An error of the channel is a thread that has ended already.
        if timeout(STOP_TIMEOUT, self.ended).await.is_err() {
            tracing::warn!("persons could not be stopped in time; their step is cut off");
        }
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
        growth: config.person_growth,
        merged_ids_max: config.merged_distinct_ids_max,
        ..WorkerOptions::default()
    };
    let outcome = runtime.block_on(async {
        let failures = RareLog::default();
        let catalog = loop {
            match stopped.run_until_cancelled(connect::catalog(config)).await {
                None => return Ok(()),
                Some(Ok(catalog)) => break catalog,
                Some(Err(error)) => {
                    let error = format!("{error:#}");
                    if failures.is_due(&error, Instant::now()) {
                        tracing::error!(error, "person updates cannot be applied; trying again");
                    }
                }
            }
            let pause = tokio::time::sleep(RETRY_PAUSE);
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
    /// Creates persons whose thread ends with what the channel delivers.
    pub fn of_thread(ended: oneshot::Receiver<anyhow::Result<()>>) -> Self {
        let stop = CancellationToken::new();
        Self { stop, ended }
    }
}
