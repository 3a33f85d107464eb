//! Engine of batch exports as a part of the process: on a thread and a runtime of its own, as runs
//! must delay neither events nor the API.

use crate::admin;
use crate::config::Config;
use crate::project_access::ProjectAccess;
use crate::thread_priority::lower_priority;
use crate::{connect, secret_key};
use anyhow::{Context, anyhow};
use async_trait::async_trait;
use millrace_admin::ExportNotices;
use millrace_clickhouse::{ClickHouse, ProjectLogin, QueryError, Settings};
use millrace_exports::SecretKey;
use millrace_exports::destination::Destinations;
use millrace_exports::engine::{Engine, EngineOptions, ProjectLogins, TAKE_BACK_TIMEOUT};
use millrace_rows::RareLog;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OnceCell, oneshot};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Runtime threads: compression of one run must not keep another from reporting its progress.
const THREADS: usize = 2;
/// Timeout of a stop: runs roll back what they delivered, and release their claims in the catalog.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(20);
const _: () = assert!(STOP_TIMEOUT.as_secs() > TAKE_BACK_TIMEOUT.as_secs());
/// Pause between attempts to start the engine.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// Running engine of exports; it ends with the process, or when it is stopped.
#[derive(Debug)]
pub struct Exports {
    stop: CancellationToken,
    ended: oneshot::Receiver<anyhow::Result<()>>,
}

impl Exports {
    /// Starts the thread. The catalog must be migrated.
    ///
    /// # Errors
    /// When the key of secrets cannot be read, or the system cannot start another thread.
    pub fn start(config: &Config, settings: &Settings) -> anyhow::Result<Self> {
        let secret_key = secret_key::find(config)?;
        let (clickhouse, settings) = (ClickHouse::new(settings), settings.clone());
        let (stop, config) = (CancellationToken::new(), config.clone());
        let (end, ended) = oneshot::channel();
        let stopped = stop.clone();
        std::thread::Builder::new()
            .name("exports".to_owned())
            .spawn(move || {
                // Threads that are started from here inherit the priority.
                lower_priority();
                let outcome = serve(&config, &secret_key, (&clickhouse, &settings), &stopped);
                // Nobody waits for the outcome if the process ends otherwise.
                let _ = end.send(outcome);
            })?;
        Ok(Self { stop, ended })
    }

    /// Waits until the engine ends by itself, which only a bug causes; returns the reason.
    pub async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.ended).await {
            Ok(Err(error)) => error.context("batch exports ended"),
            Ok(Ok(())) => anyhow!("batch exports ended by themselves"),
            Err(_) => anyhow!("batch exports panicked"),
        }
    }

    /// Guard that stops the engine when it is dropped: it leads no more, and releases its runs.
    pub fn stop_on_drop(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    /// Releases the runs under way to the next process that runs exports. If the catalog does not
    /// answer, their claims lapse.
    pub async fn stop(self) {
        self.stop.cancel();
        // An error of the channel is a thread that has ended already.
        if timeout(STOP_TIMEOUT, self.ended).await.is_err() {
            tracing::warn!("runs of exports could not be released in time; their claims lapse");
        }
    }
}

fn serve(
    config: &Config,
    secret_key: &SecretKey,
    clickhouse: (&ClickHouse, &Settings),
    stopped: &CancellationToken,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("exports")
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        let failures = RareLog::default();
        loop {
            let opened = engine(config, secret_key, clickhouse);
            match stopped.run_until_cancelled(opened).await {
                None => break Ok(()),
                Some(Ok(engine)) => break engine.run(stopped.cancelled()).await,
                Some(Err(error)) => {
                    let error = format!("{error:#}");
                    if failures.is_due(&error, Instant::now()) {
                        tracing::error!(error, "batch exports do not run; trying again");
                    }
                }
            }
            let pause = tokio::time::sleep(RETRY_PAUSE);
            if stopped.run_until_cancelled(pause).await.is_none() {
                break Ok(());
            }
        }
    });
    runtime.shutdown_background();
    Ok(outcome?)
}

/// Creates the engine, which does not run yet.
async fn engine(
    config: &Config,
    secret_key: &SecretKey,
    (clickhouse, settings): (&ClickHouse, &Settings),
) -> anyhow::Result<Engine> {
    let catalog = connect::catalog(config).await?;
    let destinations = Destinations::new(
        secret_key.clone(),
        config.allow_private_destinations,
        config.export_root.clone(),
    )?;
    let notices = ExportNotices {
        catalog: catalog.clone(),
        outbox: admin::outbox(config),
    };
    let options = EngineOptions {
        runs_max: config.export_runs_max,
        runs_kept: config.export_runs_kept,
        logs_kept: config.export_logs_kept,
        ..EngineOptions::default()
    };
    let open = Arc::new(move |export: &_| destinations.open(export));
    let notices = Arc::new(notices);
    let engine = Engine::new(catalog, clickhouse.clone(), open, notices, options);
    let logins = Arc::new(Logins {
        config: config.clone(),
        settings: settings.clone(),
        access: OnceCell::new(),
    });
    Ok(engine.with_logins(logins))
}

/// Logins of projects in the ClickHouse of these settings.
#[derive(Debug)]
struct Logins {
    config: Config,
    settings: Settings,
    access: OnceCell<ProjectAccess>,
}

#[async_trait]
impl ProjectLogins for Logins {
    async fn login(&self, project_id: i64) -> Result<Option<ProjectLogin>, QueryError> {
        let connect = || ProjectAccess::connect(&self.config, self.settings.clone());
        let access = self.access.get_or_try_init(connect).await?;
        access.export_login(project_id).await
    }
}

#[cfg(test)]
impl Exports {
    /// Creates exports whose thread ends with what the channel delivers.
    pub fn of_thread(ended: oneshot::Receiver<anyhow::Result<()>>) -> Self {
        let stop = CancellationToken::new();
        Self { stop, ended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stop_times_out_if_the_thread_does_not_end() {
        let (_end, ended) = oneshot::channel();
        let exports = Exports::of_thread(ended);
        let stop = exports.stop.clone();
        exports.stop().await;
        assert!(stop.is_cancelled());
    }
}
