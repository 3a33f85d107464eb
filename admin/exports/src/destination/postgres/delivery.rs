//! One run: from COPY to COMMIT.

use super::copy_text;
use super::failure;
use super::publish::{Try, publish};
use super::server::Server;
use super::session::{Session, within};
use super::shape::{self, Shape};
use super::sql::{self, own};
use crate::destination::dialler::Dialler;
use crate::destination::table::receiver::Receiver;
use crate::destination::table::row::TableRow;
use crate::destination::table::run_key;
use crate::destination::table::width::{Widths, fit};
use crate::destination::{Delivered, Delivery};
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::SinkExt as _;
use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use tokio_postgres::CopyInSink;

/// Rows are sent to the server in pieces of about so many bytes.
const PIECE_BYTES: usize = 64 << 10;
/// `numeric`, which numbers in JSONB are, holds this many digits behind the point.
const DIGITS_MAX: usize = 16_000;

/// Rows on their way into the temporary table.
pub(super) struct CopyDelivery {
    server: Arc<Server>,
    dialler: Arc<dyn Dialler>,
    session: Session,
    sink: Pin<Box<CopyInSink<Bytes>>>,
    shape: Shape,
    widths: Widths,
    this: Try,
    receiver: Receiver,
    piece: BytesMut,
    bytes: u64,
}

impl CopyDelivery {
    pub(super) async fn begin(
        server: &Arc<Server>,
        dialler: Arc<dyn Dialler>,
        run: &RunScope,
    ) -> Result<Self, ExportError> {
        let session = Session::open(server, &*dialler).await?;
        let shape = shape::prepare(&session, server).await?;
        session.run(server, &own::create_stage(server)).await?;
        // It takes as long as ClickHouse does; who stalls is noticed here.
        session.run(server, "SET statement_timeout = 0").await?;
        let copy = own::copy();
        let copy = session.client.copy_in(&copy);
        let sink = within(server, server.limits.statement, copy).await?;
        Ok(Self {
            server: Arc::clone(server),
            dialler,
            session,
            sink: Box::pin(sink),
            widths: shape.widths(server),
            shape,
            this: Try::new(run_key(run)),
            receiver: Receiver::new(DIGITS_MAX),
            piece: BytesMut::new(),
            bytes: 0,
        })
    }

    async fn send(&mut self) -> Result<(), ExportError> {
        let piece = self.piece.split().freeze();
        self.bytes += piece.len() as u64;
        let sent = tokio::time::timeout(self.server.limits.stall, self.sink.send(piece)).await;
        let sent = sent.map_err(|_| failure::late(&self.server))?;
        sent.map_err(|error| failure::of_statement(&self.server, &error))
    }

    fn append(&mut self, line: &[u8]) -> Result<(), ExportError> {
        let line = self.receiver.take(line);
        let mut cells = TableRow::read(&line)?.into_cells();
        if fit(&mut cells, &self.widths) && matches!(line, Cow::Borrowed(_)) {
            self.receiver.rows_changed += 1;
        }
        copy_text::append(&cells, &mut self.piece);
        Ok(())
    }
}

#[async_trait]
impl Delivery for CopyDelivery {
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError> {
        self.receiver.lines.push(&bytes);
        while let Some(line) = self.receiver.lines.next_line()? {
            self.append(&line)?;
            if self.piece.len() >= PIECE_BYTES {
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
        let server = Arc::clone(&self.server);
        let copied = within(&server, server.limits.publish, self.sink.as_mut().finish()).await?;
        if copied != self.receiver.rows {
            let rows = self.receiver.rows;
            let message = format!("{copied} rows arrived of {rows} that were sent.");
            return Err(ExportError::retry(message));
        }
        self.this.rows = copied;
        let mut statements = vec![format!("ANALYZE pg_temp.{}", sql::STAGE)];
        if !self.shape.has_unique_uuid {
            statements.push(server.delete_known());
        }
        statements.push(own::insert(&server, &self.shape));
        publish(
            self.session,
            &server,
            &*self.dialler,
            &self.this,
            &statements,
        )
        .await?;
        Ok(Delivered {
            rows: Some(copied),
            bytes: self.bytes,
            rows_changed: self.receiver.rows_changed,
        })
    }

    /// The temporary table goes with the connection.
    async fn abort(self: Box<Self>) {}
}
