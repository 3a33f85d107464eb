//! One run: INSERTs of many rows, then the transaction.

use super::sql;
use crate::destination::dialler::Dialler;
use crate::destination::postgres::arriving::Arriving;
use crate::destination::postgres::server::Server;
use crate::destination::postgres::session::{Text, within};
use crate::destination::{Delivered, Delivery};
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::Arc;
use tokio_postgres::types::Type;

/// The most rows of a statement; each value has a number, of which there are 32 767.
const ROWS_MAX: usize = 2_000;
/// A statement is sent when its values have so many bytes: with one more value of each column it
/// stays below the 16 MB that Redshift takes.
const BYTES_MAX: usize = 4 << 20;
/// Numbers beyond a double's are kept as texts.
const DIGITS_MAX: usize = 300;

/// Rows on their way into the temporary table.
pub(in super::super) struct InsertDelivery {
    arriving: Arriving,
    /// Rows that are in the table.
    inserted: u64,
    /// The values of whole rows that were not sent yet.
    values: Vec<Option<String>>,
    /// How many bytes those have.
    values_bytes: usize,
}

impl InsertDelivery {
    pub(in super::super) async fn begin(
        server: &Arc<Server>,
        dialler: Arc<dyn Dialler>,
        run: &RunScope,
    ) -> Result<Self, ExportError> {
        let arriving = Arriving::begin(server, dialler, run, DIGITS_MAX).await?;
        arriving
            .session
            .run(server, &sql::create_stage(server))
            .await?;
        Ok(Self {
            arriving,
            inserted: 0,
            values: Vec::new(),
            values_bytes: 0,
        })
    }

    fn append(&mut self, line: &[u8]) -> Result<(), ExportError> {
        let (values, values_bytes) = (&mut self.values, &mut self.values_bytes);
        self.arriving.take(line, |cells| {
            for cell in cells {
                *values_bytes += cell.as_deref().map_or(0, str::len);
                values.push(cell.map(Cow::into_owned));
            }
        })
    }

    fn columns_count(&self) -> usize {
        self.arriving.server.layout.columns.len()
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
            .map(|value| (value as Text<'_>, Type::VARCHAR));
        let typed: Vec<_> = typed.collect();
        let server = &self.arriving.server;
        let insert = sql::insert_stage(server, rows);
        let inserted = self.arriving.session.client.execute_typed(&insert, &typed);
        let inserted = within(server, server.limits.stall, inserted).await?;
        if inserted != rows as u64 {
            return Err(ExportError::rows_missing(inserted, rows as u64));
        }
        self.inserted += inserted;
        self.arriving.bytes += self.values_bytes as u64;
        self.values_bytes = 0;
        Ok(())
    }
}

#[async_trait]
impl Delivery for InsertDelivery {
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.arriving.receiver.lines.push(&bytes);
        while let Some(line) = self.arriving.receiver.lines.next_line()? {
            self.append(&line)?;
            if self.is_full() {
                self.send().await?;
            }
        }
        Ok(())
    }

    async fn end_part(&mut self, rows: u64) -> Result<(), ExportError> {
        self.arriving.receiver.end_part(rows)
    }

    fn bytes(&self) -> u64 {
        self.arriving.bytes
    }

    async fn publish(mut self: Box<Self>) -> Result<Delivered, ExportError> {
        self.send().await?;
        let Self {
            arriving, inserted, ..
        } = *self;
        let server = &arriving.server;
        let insert = sql::insert(server, &arriving.shape);
        let mut statements = Vec::from_iter(server.delete_older());
        statements.extend([server.delete_known(), insert]);
        arriving.publish(inserted, &statements).await
    }

    /// The temporary table goes with the connection.
    async fn abort(self: Box<Self>) {}
}
