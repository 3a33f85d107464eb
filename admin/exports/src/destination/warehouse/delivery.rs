//! One run, for services that take SQL statements with a parameter: rows go as JSON arrays.

use super::engine::{Engine, Texts};
use super::stage_name;
use crate::destination::table::receiver::Receiver;
use crate::destination::{Delivered, Delivery};
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;

/// A statement with more than one row has no more bytes of them.
const BYTES_MAX: usize = 2 << 20;
/// A row that has more cannot be handed over as a value: 16 MB is what a text may have.
const ROW_BYTES_MAX: usize = 15 << 20;
/// Numbers beyond a double's are kept as texts.
const DIGITS_MAX: usize = 300;

/// Rows on their way into the table beside that of events.
pub(super) struct WarehouseDelivery {
    engine: Arc<dyn Engine>,
    texts: Texts,
    receiver: Receiver,
    /// A JSON array that is not closed; empty if there are no rows.
    rows: String,
    bytes: u64,
}

impl WarehouseDelivery {
    pub(super) async fn begin(
        engine: Arc<dyn Engine>,
        run: &RunScope,
    ) -> Result<Self, ExportError> {
        let texts = engine.texts(&stage_name(&engine.place().table, run));
        engine.run(&texts.create, None).await?;
        engine.run(&texts.stage, None).await?;
        Ok(Self {
            engine,
            texts,
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
        self.engine.run(&self.texts.insert, Some(&rows)).await?;
        self.bytes += rows.len() as u64;
        Ok(())
    }

    /// Rows may be there twice, if it was not known whether they had arrived; none may be missing.
    async fn check(&self) -> Result<(), ExportError> {
        let count = self.engine.run(&self.texts.count, None).await?;
        let count: u64 = count.and_then(|count| count.parse().ok()).unwrap_or(0);
        let rows = self.receiver.rows;
        if count < rows {
            return Err(ExportError::rows_missing(count, rows));
        }
        Ok(())
    }
}

#[async_trait]
impl Delivery for WarehouseDelivery {
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.receiver.lines.push(&bytes);
        while let Some(line) = self.receiver.lines.next_line()? {
            let line = self.receiver.take(&line);
            if line.len() > ROW_BYTES_MAX {
                return Err(ExportError::hopeless("A row has more than 15 MB."));
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
        self.send().await?;
        self.check().await?;
        self.engine.run(&self.texts.merge, None).await?;
        // What stays is replaced by the next try of the window, and in nobody's way.
        let _ = self.engine.run(&self.texts.drop, None).await;
        Ok(Delivered {
            rows: Some(self.receiver.rows),
            bytes: self.bytes,
            rows_changed: self.receiver.rows_changed,
        })
    }

    async fn abort(self: Box<Self>) {
        let _ = self.engine.run(&self.texts.drop, None).await;
    }
}
