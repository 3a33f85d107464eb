//! From the plan to ClickHouse, and the log's segments released behind it.

use super::{Event, PAUSE, ShipError, Shipper};
use crate::retention::Retention;
use crate::ship::plan::UnitId;
use crate::ship::retries::Standing;
use crate::ship::sink::Sink;
use crate::ship::unit::Unit;
use metrics::counter;
use millrace_clickhouse::QueryError;
use millrace_log::{CheckpointError, FrameSection, LogHandle, Position};
use std::sync::Arc;
use tokio::time::Instant;

impl<K: Sink> Shipper<K> {
    /// Sends what is due, once the checkpoint says so, and releases what is settled.
    pub(super) async fn send(&mut self) -> Result<(), ShipError> {
        let mut units = Vec::new();
        if self.plan.can_launch(self.now()) {
            if self.run.is_some() || self.context.sink.tokens_are_atomic() {
                units = self.plan.launch(self.now(), self.run);
            } else {
                self.ask_for_run();
            }
        }
        if (!units.is_empty() || self.has_settled()) && !self.remember().await? {
            // Not stored: nothing may be sent. The units stay launched in the plan only if they
            // are sent, so they go back.
            for (id, _) in units {
                self.plan.restarted(id);
            }
            self.not_before = Instant::now() + PAUSE;
            return Ok(());
        }
        for (id, unit) in units {
            self.carry_out(id, unit, Standing::Fresh);
        }
        Ok(())
    }

    pub(super) fn carry_out(
        &mut self,
        id: UnitId,
        unit: Arc<Unit<FrameSection>>,
        standing: Standing,
    ) {
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let verdict = context.carry_out(id, unit, standing).await;
            Event::Unit(id, verdict)
        });
    }

    /// Whether segments may be released that the stored checkpoint still needs.
    fn has_settled(&self) -> bool {
        self.stored_low < self.plan.low()
    }

    fn ask_for_run(&mut self) {
        if self.is_asking || Instant::now() < self.ask_not_before {
            return;
        }
        self.is_asking = true;
        // If it fails: a question costs little, so the server's return is noticed soon.
        let failed = self.pace.failed(true);
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            match context.sink.server_run(&context.node).await {
                Ok(run) => Event::Run(Ok(run)),
                Err(error) => {
                    let outcome = count_as(&context.sink, &error, failed.is_said).await;
                    counter!("millrace_insert_retries_total", "lane" => context.lane, "outcome" => outcome)
                        .increment(1);
                    Event::Run(Err(failed.pause))
                }
            }
        });
    }

    /// Stores the checkpoint, then lets the log go of what it no longer needs. False when there is
    /// no room for it on the disk.
    pub(super) async fn remember(&mut self) -> Result<bool, ShipError> {
        if !self.plan.take_change() {
            return Ok(true);
        }
        let checkpoint = self.plan.checkpoint();
        let bytes = checkpoint
            .to_bytes()
            .map_err(|error| ShipError::Log(error.to_string()))?;
        let (log, retention) = (self.context.log.clone(), Arc::clone(&self.retention));
        let low = checkpoint.low;
        let stored =
            tokio::task::spawn_blocking(move || store(&log, &retention, &bytes, low)).await;
        match stored {
            Ok(Ok(is_stored)) => {
                if is_stored {
                    self.stored_low = low;
                } else {
                    self.plan.mark_changed();
                }
                Ok(is_stored)
            }
            Ok(Err(error)) => Err(ShipError::Log(error)),
            Err(error) => Err(ShipError::Log(error.to_string())),
        }
    }
}

/// Makes missing tables, which at a first start is no trouble; answers what the failed question
/// counts as.
async fn count_as<K: Sink>(sink: &K, error: &QueryError, is_said: bool) -> &'static str {
    let trouble = if error.schema_is_missing() {
        match sink.migrate().await {
            Ok(()) => return "question",
            Err(why) => format!("the missing tables cannot be made: {why}"),
        }
    } else {
        format!("no insert is sent, as ClickHouse cannot be asked: {error}")
    };
    if is_said {
        tracing::warn!("{trouble}");
    }
    error.outcome_name()
}

fn store(
    log: &LogHandle,
    retention: &Retention,
    bytes: &[u8],
    low: Position,
) -> Result<bool, String> {
    match log.store_checkpoint(bytes) {
        Ok(()) => {}
        // Too large: it shrinks as inserts are settled.
        Err(error @ (CheckpointError::DiskFull | CheckpointError::TooLarge { .. })) => {
            tracing::error!("the checkpoint cannot be stored, trying again: {error}");
            return Ok(false);
        }
        Err(error) => return Err(error.to_string()),
    }
    let released = retention.settle(log, low);
    released.map_err(|error| error.to_string())?;
    Ok(true)
}
