//! One run: INSERTs of many rows, then the transaction.

use super::sql;
use crate::destination::dialler::Dialler;
use crate::destination::postgres::publish::{Try, publish};
use crate::destination::postgres::server::Server;
use crate::destination::postgres::session::{Session, Text, within};
use crate::destination::postgres::shape::{self, Shape};
use crate::destination::table::receiver::Receiver;
use crate::destination::table::row::TableRow;
use crate::destination::table::width::{Widths, fit};
use crate::destination::table::{COLUMNS_COUNT, run_key};
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
pub(super) struct InsertDelivery {
    server: Arc<Server>,
    dialler: Arc<dyn Dialler>,
    session: Session,
    shape: Shape,
    widths: Widths,
    this: Try,
    receiver: Receiver,
    /// The values of whole rows that were not sent yet.
    values: Vec<Option<String>>,
    /// How many bytes those have.
    values_bytes: usize,
    bytes: u64,
}

impl InsertDelivery {
    pub(super) async fn begin(
        server: &Arc<Server>,
        dialler: Arc<dyn Dialler>,
        run: &RunScope,
    ) -> Result<Self, ExportError> {
        let session = Session::open(server, &*dialler).await?;
        let shape = shape::prepare(&session, server).await?;
        session.run(server, &sql::create_stage()).await?;
        Ok(Self {
            server: Arc::clone(server),
            dialler,
            session,
            widths: shape.widths(server),
            shape,
            this: Try::new(run_key(run)),
            receiver: Receiver::new(DIGITS_MAX),
            values: Vec::new(),
            values_bytes: 0,
            bytes: 0,
        })
    }

    fn append(&mut self, line: &[u8]) -> Result<(), ExportError> {
        let line = self.receiver.take(line);
        let mut cells = TableRow::read(&line)?.into_cells();
        if fit(&mut cells, &self.widths) && matches!(line, Cow::Borrowed(_)) {
            self.receiver.rows_changed += 1;
        }
        for cell in cells {
            self.values_bytes += cell.as_deref().map_or(0, str::len);
            self.values.push(cell.map(Cow::into_owned));
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.values.len() >= ROWS_MAX * COLUMNS_COUNT || self.values_bytes >= BYTES_MAX
    }

    async fn send(&mut self) -> Result<(), ExportError> {
        if self.values.is_empty() {
            return Ok(());
        }
        let values = std::mem::take(&mut self.values);
        let rows = values.len() / COLUMNS_COUNT;
        let typed = values
            .iter()
            .map(|value| (value as Text<'_>, Type::VARCHAR));
        let typed: Vec<_> = typed.collect();
        let insert = sql::insert_stage(rows);
        let inserted = self.session.client.execute_typed(&insert, &typed);
        let inserted = within(&self.server, self.server.limits.stall, inserted).await?;
        if inserted != rows as u64 {
            let message = format!("{inserted} rows arrived of {rows} that were sent.");
            return Err(ExportError::retry(message));
        }
        self.this.rows += inserted;
        self.bytes += self.values_bytes as u64;
        self.values_bytes = 0;
        Ok(())
    }
}

#[async_trait]
impl Delivery for InsertDelivery {
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.receiver.lines.push(&bytes);
        while let Some(line) = self.receiver.lines.next_line()? {
            self.append(&line)?;
            if self.is_full() {
                self.send().await?;
            }
        }
        Ok(())
    }

    async fn end_part(&mut self, rows: u64) -> Result<(), ExportError> {
        self.receiver.end_part(rows)
    }

    async fn publish(mut self: Box<Self>) -> Result<Delivered, ExportError> {
        self.send().await?;
        let insert = sql::insert(&self.server, &self.shape);
        let statements = [self.server.delete_known(), insert];
        let rows = self.this.rows;
        publish(
            self.session,
            &self.server,
            &*self.dialler,
            &self.this,
            &statements,
        )
        .await?;
        Ok(Delivered {
            rows: Some(rows),
            bytes: self.bytes,
            rows_changed: self.receiver.rows_changed,
        })
    }

    /// The temporary table goes with the connection.
    async fn abort(self: Box<Self>) {}
}
