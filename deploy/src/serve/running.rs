//! The running parts of a process, from the end of the start to the last event shipped.

use crate::background_parts::{self, BackgroundParts};
use crate::config::Config;
use crate::engine;
use crate::ingest::Ingest;
use crate::live_endpoint::AdvertisedEndpoint;
use crate::signals::StopSignal;
use anyhow::{Context, anyhow};
use millrace_embedded::Supervisor;
use millrace_ingest::HealthServer;
use tokio_util::sync::CancellationToken;

/// All running parts.
pub struct RunningServer {
    pub ingest: Option<Ingest>,
    pub background_parts: BackgroundParts,
    pub engine: Option<Supervisor>,
    /// Kept until the process ends.
    pub health: HealthServer,
    /// Kept until the process ends.
    pub live_endpoint: Option<AdvertisedEndpoint>,
}

impl RunningServer {
    /// Drains after a failed start and deregisters the node, unless it accepted events that it
    /// cannot ship.
    pub async fn abort_start(
        self,
        config: &Config,
        error: anyhow::Error,
        stop: &StopSignal,
    ) -> anyhow::Error {
        let at_once = std::future::ready(());
        let stopped = self.run_until_stopped(config, at_once, stop.cut_short());
        match stopped.await {
            Ok(()) => error,
            Err(end) => error.context(format!("{end:#}")),
        }
    }

    /// Waits for the stop signal or a failure, then drains, until that is cut short. The engine is
    /// always asked to end, as its data is at stake, and has its own time limit.
    pub async fn run_until_stopped(
        self,
        config: &Config,
        stop: impl Future<Output = ()>,
        cut_short: &CancellationToken,
    ) -> anyhow::Result<()> {
        let Self {
            ingest,
            mut background_parts,
            engine,
            health: _health,
            live_endpoint: _live_endpoint,
        } = self;
        let status = engine.as_ref().map(Supervisor::status);
        let engine_failed = async {
            match status {
                None => std::future::pending().await,
                Some(status) => engine::permanent_failure(status).await,
            }
        };
        let mut failure = None;
        let leader_roles = background_parts.leader_roles();
        let ends = async {
            // Dropped as the stop begins, also one by a failure of ingestion: another process leads
            // while requests are finished here.
            let _leader_roles = leader_roles;
            tokio::select! {
                () = stop => {}
                () = engine_failed => {}
                error = background_parts.failed() => failure = Some(error),
            }
        };
        let outcome = match ingest {
            Some(ingest) => ingest.run_until_stopped(config, ends, cut_short).await,
            None => {
                ends.await;
                Ok(())
            }
        };
        if let Err(error) = outcome {
            let reason = engine.as_ref().and_then(engine::permanent_failure_reason);
            // The kernel ends the engine with this process: waiting for it would keep a broken
            // process alive.
            std::mem::forget(engine);
            let reason = reason.map(|reason| anyhow!(reason));
            return background_parts::outcome([failure, reason, Some(error)]);
        }
        let stopped = background_parts.stop(cut_short).await;
        let engine_stopped = match engine {
            Some(engine) => stop_engine(engine).await,
            None => Ok(()),
        };
        background_parts::outcome([failure, engine_stopped.err(), stopped.err()])?;
        tracing::info!("stopped");
        Ok(())
    }
}

/// Stops the engine.
///
/// # Errors
/// When it had failed for good.
async fn stop_engine(engine: Supervisor) -> anyhow::Result<()> {
    let reason = engine::permanent_failure_reason(&engine);
    tokio::task::spawn_blocking(|| engine.stop())
        .await
        .context("the supervisor panicked")?;
    reason.map_or(Ok(()), |reason| Err(anyhow!(reason)))
}

#[cfg(test)]
mod tests {
    use crate::{cli, exports, ingest, persons};
    use millrace_embedded::SupervisorOptions;
    use millrace_ingest::RunningImportQuota;
    use std::time::Duration;

    /// Time for what has no bound of its own: the disk's last sync, and bodies that threads still
    /// parse.
    const SLACK: Duration = Duration::from_secs(10);
    const UNIT: &str = include_str!("../../systemd/millrace.service");

    /// Default of a setting in seconds.
    fn seconds(setting: &str) -> Duration {
        let command = cli::command();
        let mut arguments = command.get_arguments();
        let argument = arguments.find(|argument| argument.get_id() == setting);
        let default = argument.unwrap().get_default_values()[0].to_str();
        Duration::from_secs(default.unwrap().parse().unwrap())
    }

    #[test]
    fn systemd_waits_longer_than_a_stop_may_take() {
        let at_once = [
            exports::STOP_TIMEOUT,
            persons::STOP_TIMEOUT,
            millrace_admin::STOP_TIME_MAX,
        ];
        let steps = [
            seconds("drain_seconds"),
            seconds("grace_seconds"),
            RunningImportQuota::STOP_TIME_MAX,
            ingest::LAST_CHECKPOINT_TIME,
            ingest::DEREGISTER_TIME_MIN,
            at_once.into_iter().max().unwrap(),
            SupervisorOptions::default().grace,
        ];
        let stop: Duration = steps.into_iter().sum();
        let mut lines = UNIT.lines();
        let waits = lines.find_map(|line| line.strip_prefix("TimeoutStopSec="));
        let waits = Duration::from_secs(waits.unwrap().parse().unwrap());
        assert!(waits >= stop + SLACK, "{waits:?} for {stop:?}");
    }
}
