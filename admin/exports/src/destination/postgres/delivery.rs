//! One run: from COPY to COMMIT.

use super::arriving::Arriving;
use super::copy_text;
use super::failure;
use super::server::Server;
use super::session::within;
use super::sql::{self, own};
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

/// Rows are sent to the server in pieces of about so many bytes.
const PIECE_BYTES: usize = 64 << 10;
/// `numeric`, which numbers in JSONB are, holds this many digits behind the point.
const DIGITS_MAX: usize = 16_000;

/// Rows on their way into the temporary table.
pub(super) struct CopyDelivery {
    arriving: Arriving,
    sink: Pin<Box<CopyInSink<Bytes>>>,
    piece: BytesMut,
}

impl CopyDelivery {
    pub(super) async fn begin(
        server: &Arc<Server>,
        dialler: Arc<dyn Dialler>,
        run: &RunScope,
    ) -> Result<Self, ExportError> {
        let arriving = Arriving::begin(server, dialler, run, DIGITS_MAX).await?;
        let session = &arriving.session;
        session.run(server, &own::create_stage(server)).await?;
        // It takes as long as ClickHouse does; who stalls is noticed here.
        session.run(server, "SET statement_timeout = 0").await?;
        let copy = own::copy(server);
        let copy = session.client.copy_in(&copy);
        let sink = within(server, server.limits.statement, copy).await?;
        Ok(Self {
            arriving,
            sink: Box::pin(sink),
            piece: BytesMut::new(),
        })
    }

    async fn send(&mut self) -> Result<(), ExportError> {
        let server = &self.arriving.server;
        let piece = self.piece.split().freeze();
        self.arriving.bytes += piece.len() as u64;
        let sent = tokio::time::timeout(server.limits.stall, self.sink.send(piece)).await;
        let sent = sent.map_err(|_| failure::late(server))?;
        sent.map_err(|error| failure::of_statement(server, &error))
    }
}

#[async_trait]
impl Delivery for CopyDelivery {
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.arriving.receiver.lines.push(&bytes);
        while let Some(line) = self.arriving.receiver.lines.next_line()? {
            let piece = &mut self.piece;
            self.arriving
                .take(&line, |cells| copy_text::append(&cells, piece))?;
            if self.piece.len() >= PIECE_BYTES {
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
            arriving, mut sink, ..
        } = *self;
        let server = &arriving.server;
        let copied = within(server, server.limits.publish, sink.as_mut().finish()).await?;
        if copied != arriving.receiver.rows {
            let rows = arriving.receiver.rows;
            return Err(ExportError::rows_missing(copied, rows));
        }
        let mut statements = vec![format!("ANALYZE pg_temp.{}", sql::STAGE)];
        statements.extend(server.delete_older());
        if !arriving.shape.has_unique_key {
            statements.push(server.delete_known());
        }
        statements.push(own::insert(server, &arriving.shape));
        arriving.publish(copied, &statements).await
    }

    /// The temporary table goes with the connection.
    async fn abort(self: Box<Self>) {}
}
