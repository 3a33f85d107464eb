//! Delivery of one run to services that take SQL statements with a parameter: rows are sent as JSON
//! arrays.

use super::engine::Engine;
use super::stage::{Stage, stage_name};
use super::statements::Statements;
use crate::destination::table::receiver::Receiver;
use crate::destination::{Delivered, Delivery};
use crate::error::{ExportError, ExportErrorKind};
use crate::window::RunScope;
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;

/// Bytes of rows in a statement with more than one row at most.
const BYTES_MAX: usize = 2 << 20;
/// Largest row in bytes: a text value may have 16 MB.
const ROW_BYTES_MAX: usize = 15 << 20;
/// Digits of a number at most: larger ones than a double are stored as texts.
const DIGITS_MAX: usize = 300;

/// Delivery of rows into the staging table.
pub(super) struct WarehouseDelivery {
    engine: Arc<dyn Engine>,
    stage: Stage,
    statements: Statements,
    receiver: Receiver,
    /// Open JSON array of rows; empty if there are none.
    rows: String,
    bytes: u64,
}

impl WarehouseDelivery {
    pub(super) async fn begin(
        engine: Arc<dyn Engine>,
        run: &RunScope,
    ) -> Result<Self, ExportError> {
        let stage = stage_name(&engine.table_ref().table, run);
        let statements = engine.statements(&stage);
        engine.run(&statements.create, None).await?;
        engine.run(&statements.stage, None).await?;
        Ok(Self {
            engine,
            stage: Stage::new(stage),
            statements,
            receiver: Receiver::new(DIGITS_MAX),
            rows: String::new(),
            bytes: 0,
        })
    }

    async fn send(&mut self) -> Result<(), ExportError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut rows = std::mem::take(&mut self.rows);
        rows.push(']');
        self.run_on_stage(&self.statements.insert, Some(&rows))
            .await?;
        self.bytes += rows.len() as u64;
        Ok(())
    }

    /// Runs a statement on the staging table, which an earlier try of the window may have dropped,
    /// if it ended late: then another try helps.
    async fn run_on_stage(&self, sql: &str, rows: Option<&str>) -> Result<(), ExportError> {
        let Err(error) = self.engine.run(sql, rows).await else {
            return Ok(());
        };
        if error.kind != ExportErrorKind::Permanent {
            return Err(error);
        }
        match self.engine.run(&self.statements.count, None).await {
            Err(again) if again.kind == ExportErrorKind::Permanent => {
                Err(ExportError::retryable(error.message))
            }
            _ => Err(error),
        }
    }

    /// Checks that no row is missing from the staging table. Rows may be there twice, if it was not
    /// known whether they had arrived.
    async fn check(&self) -> Result<(), ExportError> {
        let count = self.engine.run(&self.statements.count, None).await;
        // It was there, and the insert was carried out.
        let count = count.map_err(|error| ExportError::retryable(error.message))?;
        let count: u64 = count.and_then(|count| count.parse().ok()).unwrap_or(0);
        let rows = self.receiver.rows;
        if count < rows {
            return Err(ExportError::rows_missing(count, rows));
        }
        Ok(())
    }

    /// Brings the rows into the table.
    async fn merge(&mut self) -> Result<(), ExportError> {
        self.send().await?;
        self.check().await?;
        self.run_on_stage(&self.statements.merge, None).await
    }

    async fn drop_stage(&mut self) {
        let dropping = self.engine.run(&self.statements.drop, None);
        self.stage.end(dropping).await;
    }
}

#[async_trait]
impl Delivery for WarehouseDelivery {
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.receiver.lines.push(&bytes);
        while let Some(line) = self.receiver.lines.next_line()? {
            let line = self.receiver.take(&line);
            if line.len() > ROW_BYTES_MAX {
                return Err(ExportError::permanent("A row has more than 15 MB."));
            }
            if !self.rows.is_empty() && self.rows.len() + line.len() > BYTES_MAX {
                self.send().await?;
            }
            self.rows.push(if self.rows.is_empty() { '[' } else { ',' });
            self.rows += &line;
        }
        Ok(())
    }

    async fn end_part(&mut self, rows: u64) -> Result<(), ExportError> {
        self.receiver.end_part(rows)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    async fn publish(mut self: Box<Self>) -> Result<Delivered, ExportError> {
        let merged = self.merge().await;
        // No try may follow.
        self.drop_stage().await;
        merged?;
        Ok(Delivered {
            rows: Some(self.receiver.rows),
            bytes: self.bytes,
            rows_changed: self.receiver.rows_changed,
        })
    }

    async fn abort(mut self: Box<Self>) {
        self.drop_stage().await;
    }
}
