//! Delivery of one run, from COPY to COMMIT.

use super::copy_text;
use super::failure;
use super::native_sql;
use super::server::Server;
use super::session::within;
use super::sql;
use super::staged_rows::StagedRows;
use crate::destination::dialler::Dialler;
use crate::destination::{Delivered, Delivery};
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::SinkExt as _;
use std::pin::Pin;
use std::sync::Arc;
use tokio_postgres::CopyInSink;

/// Bytes of a piece that is sent to the server, roughly.
const PIECE_BYTES: usize = 64 << 10;
/// Digits of a number at most: `numeric`, the type of numbers in JSONB, holds as many behind the
/// point.
const DIGITS_MAX: usize = 16_000;

/// Delivery of rows into the temporary table by COPY.
pub(super) struct CopyDelivery {
    staged_rows: StagedRows,
    sink: Pin<Box<CopyInSink<Bytes>>>,
    piece: BytesMut,
}

impl CopyDelivery {
    pub(super) async fn begin(
        server: &Arc<Server>,
        dialler: Arc<dyn Dialler>,
        run: &RunScope,
    ) -> Result<Self, ExportError> {
        let staged_rows = StagedRows::begin(server, dialler, run, DIGITS_MAX).await?;
        let session = &staged_rows.session;
        session
            .run(server, &native_sql::create_stage(server))
            .await?;
        // COPY takes as long as ClickHouse does; a stalled server is noticed by `limits.stall`.
        session.run(server, "SET statement_timeout = 0").await?;
        let sink = session.copy_in(server, &native_sql::copy(server)).await?;
        Ok(Self {
            staged_rows,
            sink: Box::pin(sink),
            piece: BytesMut::new(),
        })
    }

    async fn send(&mut self) -> Result<(), ExportError> {
        let server = &self.staged_rows.server;
        let piece = self.piece.split().freeze();
        self.staged_rows.bytes += piece.len() as u64;
        let sent = tokio::time::timeout(server.limits.stall, self.sink.send(piece)).await;
        let sent = sent.map_err(|_| failure::timed_out(server))?;
        sent.map_err(|error| failure::of_statement(server, &error))
    }
}

#[async_trait]
impl Delivery for CopyDelivery {
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.staged_rows.receiver.lines.push(&bytes);
        while let Some(line) = self.staged_rows.receiver.lines.next_line()? {
            let piece = &mut self.piece;
            self.staged_rows
                .take(&line, |cells| copy_text::append(&cells, piece))?;
            if self.piece.len() >= PIECE_BYTES {
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
            mut sink,
            ..
        } = *self;
        let server = &staged_rows.server;
        let copied = within(server, server.limits.publish, sink.as_mut().finish()).await?;
        if copied != staged_rows.receiver.rows {
            let rows = staged_rows.receiver.rows;
            return Err(ExportError::rows_missing(copied, rows));
        }
        let mut statements = vec![format!("ANALYZE pg_temp.{}", sql::STAGE)];
        statements.extend(server.delete_older());
        if !staged_rows.table_schema.has_unique_key {
            statements.push(server.delete_known());
        }
        statements.push(native_sql::insert(server, &staged_rows.table_schema));
        staged_rows.publish(copied, &statements).await
    }

    /// Does nothing: the temporary table ends with the connection.
    async fn abort(self: Box<Self>) {}
}
