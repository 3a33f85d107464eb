//! Delivery of one run: INSERTs of many rows, then the transaction.

use super::sql;
use crate::destination::dialler::Dialler;
use crate::destination::postgres::server::Server;
use crate::destination::postgres::session::{Param, within};
use crate::destination::postgres::staged_rows::StagedRows;
use crate::destination::{Delivered, Delivery};
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::Arc;
use tokio_postgres::types::Type;

/// Rows of a statement at most; each value is a parameter, of which there may be 32 767.
const ROWS_MAX: usize = 2_000;
/// Bytes of values from which on a statement is sent: with one more value of each column it stays
/// below the 16 MB that Redshift takes.
const BYTES_MAX: usize = 4 << 20;
/// Digits of a number at most: larger ones than a double are stored as texts.
const DIGITS_MAX: usize = 300;

/// Delivery of rows into the temporary table by INSERT.
pub(in super::super) struct InsertDelivery {
    staged_rows: StagedRows,
    /// Rows that are in the temporary table.
    inserted: u64,
    /// Values of complete rows that were not sent yet.
    values: Vec<Option<String>>,
    /// Bytes of those values.
    values_bytes: usize,
}

impl InsertDelivery {
    pub(in super::super) async fn begin(
        server: &Arc<Server>,
        dialler: Arc<dyn Dialler>,
        run: &RunScope,
    ) -> Result<Self, ExportError> {
        let staged_rows = StagedRows::begin(server, dialler, run, DIGITS_MAX).await?;
        staged_rows
            .session
            .run(server, &sql::create_stage(server))
            .await?;
        Ok(Self {
            staged_rows,
            inserted: 0,
            values: Vec::new(),
            values_bytes: 0,
        })
    }

    fn append(&mut self, line: &[u8]) -> Result<(), ExportError> {
        let (values, values_bytes) = (&mut self.values, &mut self.values_bytes);
        self.staged_rows.take(line, |cells| {
            for cell in cells {
                *values_bytes += cell.as_deref().map_or(0, str::len);
                values.push(cell.map(Cow::into_owned));
            }
        })
    }

    fn columns_count(&self) -> usize {
        self.staged_rows.server.layout.columns.len()
    }

    fn is_full(&self) -> bool {
        self.values.len() >= ROWS_MAX * self.columns_count() || self.values_bytes >= BYTES_MAX
    }

    async fn send(&mut self) -> Result<(), ExportError> {
        if self.values.is_empty() {
            return Ok(());
        }
        let values = std::mem::take(&mut self.values);
        let rows = values.len() / self.columns_count();
        let typed = values
            .iter()
            .map(|value| (value as Param<'_>, Type::VARCHAR));
        let typed: Vec<_> = typed.collect();
        let server = &self.staged_rows.server;
        let insert = sql::insert_stage(server, rows);
        let inserted = self
            .staged_rows
            .session
            .client
            .execute_typed(&insert, &typed);
        let inserted = within(server, server.limits.stall, inserted).await?;
        if inserted != rows as u64 {
            return Err(ExportError::rows_missing(inserted, rows as u64));
        }
        self.inserted += inserted;
        self.staged_rows.bytes += self.values_bytes as u64;
        self.values_bytes = 0;
        Ok(())
    }
}

#[async_trait]
impl Delivery for InsertDelivery {
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.staged_rows.receiver.lines.push(&bytes);
        while let Some(line) = self.staged_rows.receiver.lines.next_line()? {
            self.append(&line)?;
            if self.is_full() {
                self.send().await?;
            }
        }
        Ok(())
    }

    async fn end_part(&mut self, rows: u64) -> Result<(), ExportError> {
        self.staged_rows.receiver.end_part(rows)
    }

    fn bytes(&self) -> u64 {
        self.staged_rows.bytes
    }

    async fn publish(mut self: Box<Self>) -> Result<Delivered, ExportError> {
        self.send().await?;
        let Self {
            staged_rows,
            inserted,
            ..
        } = *self;
        let server = &staged_rows.server;
        let insert = sql::insert(server, &staged_rows.table_schema);
        let mut statements = Vec::from_iter(server.delete_older());
        statements.extend([server.delete_known(), insert]);
        staged_rows.publish(inserted, &statements).await
    }

    /// Does nothing: the temporary table ends with the connection.
    async fn abort(self: Box<Self>) {}
}
