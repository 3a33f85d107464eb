//! Sends the plan's batches to ClickHouse, and releases settled segments of the log.

use super::state::BootId;
use super::{Event, PAUSE, ShipError, Shipper};
use crate::ship::insert_batch::InsertBatch;
use crate::ship::plan::BatchId;
use crate::ship::retries::DeliveryStage;
use crate::ship::sink::Sink;
use metrics::counter;
use millrace_clickhouse::QueryError;
use millrace_log::{CheckpointError, FrameSection, LogHandle, Position};
use std::sync::Arc;
use tokio::time::Instant;

impl<K: Sink> Shipper<K> {
    /// Sends the batches that are due, once the checkpoint has them, and releases settled segments.
    pub(super) async fn send(&mut self) -> Result<(), ShipError> {
        let mut batches = Vec::new();
        if self.plan.can_launch(self.now()) {
            let boot_id = self.boot_id.known();
            if boot_id.is_some() || self.context.sink.tokens_are_atomic() {
                batches = self.plan.launch(self.now(), boot_id);
            } else {
                self.ask_for_boot_id();
            }
        }
        if (!batches.is_empty() || self.has_settled()) && !self.persist_checkpoint().await? {
            // Not persisted: nothing may be sent. Batches stay launched in the plan only if they
            // are sent, so they go back.
            for (id, _) in batches {
                self.plan.restarted(id);
            }
            self.paused_until = Instant::now() + PAUSE;
            return Ok(());
        }
        for (id, batch) in batches {
            self.execute(id, batch, DeliveryStage::First);
        }
        Ok(())
    }

    pub(super) fn execute(
        &mut self,
        id: BatchId,
        batch: Arc<InsertBatch<FrameSection>>,
        stage: DeliveryStage,
    ) {
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let result = context.execute(id, batch, stage).await;
            Event::Batch(id, result)
        });
    }

    /// Returns true if a new checkpoint would allow the release of more segments.
    fn has_settled(&self) -> bool {
        self.stored_low < self.plan.low()
    }

    fn ask_for_boot_id(&mut self) {
        match self.boot_id {
            BootId::Unknown { ask_not_before } if Instant::now() >= ask_not_before => {}
            BootId::Unknown { .. } | BootId::Asked | BootId::Known(_) => return,
        }
        self.boot_id = BootId::Asked;
        // In case it fails: a query costs little, so the server's return is noticed soon.
        let failed = self.backoff.failed(true);
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            match context.sink.server_boot_id(&context.node).await {
                Ok(boot_id) => Event::BootId(Ok(boot_id)),
                Err(error) => {
                    let outcome = count_as(&context.sink, &error, failed.is_logged).await;
                    counter!("millrace_insert_retries_total", "lane" => context.lane, "outcome" => outcome)
                        .increment(1);
                    Event::BootId(Err(failed.pause))
                }
            }
        });
    }

    /// Persists the checkpoint, then releases the log's segments that it no longer needs. False
    /// when the disk has no space for it.
    pub(super) async fn persist_checkpoint(&mut self) -> Result<bool, ShipError> {
        if !self.plan.take_change() {
            return Ok(true);
        }
        let checkpoint = self.plan.checkpoint();
        let bytes = checkpoint
            .to_bytes()
            .map_err(|error| ShipError::Log(error.to_string()))?;
        let log = self.context.log.clone();
        let low = checkpoint.low;
        let stored = tokio::task::spawn_blocking(move || store(&log, &bytes, low)).await;
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

/// Makes missing tables, which is normal at a first start; returns the outcome that the failed
/// query counts as in the metrics.
async fn count_as<K: Sink>(sink: &K, error: &QueryError, is_logged: bool) -> &'static str {
    let message = if error.schema_is_missing() {
        match sink.migrate().await {
            Ok(()) => return "question",
            Err(why) => format!("the missing tables cannot be created: {why}"),
        }
    } else {
        format!("no insert is sent, as ClickHouse cannot be asked: {error}")
    };
    if is_logged {
        tracing::warn!("{message}");
    }
    error.outcome_name()
}

fn store(log: &LogHandle, bytes: &[u8], low: Position) -> Result<bool, String> {
    match log.store_checkpoint(bytes) {
        Ok(()) => {}
        // Too large: it shrinks as batches are settled.
        Err(error @ (CheckpointError::DiskFull | CheckpointError::TooLarge { .. })) => {
            tracing::error!("the checkpoint cannot be stored, trying again: {error}");
            return Ok(false);
        }
        Err(error) => return Err(error.to_string()),
    }
    if low > Position::FIRST {
        let released = log.release(low);
        released.map_err(|error| error.to_string())?;
    }
    Ok(true)
}
