//! A run's rows on their way into the temporary table, however they get there.

use super::publish::{Try, publish};
use super::server::Server;
use super::session::Session;
use super::shape::{self, Shape};
use crate::destination::Delivered;
use crate::destination::dialler::Dialler;
use crate::destination::table::receiver::Receiver;
use crate::destination::table::row::Cell;
use crate::destination::table::run_key;
use crate::destination::table::width::{Widths, fit};
use crate::error::ExportError;
use crate::window::RunScope;
use std::borrow::Cow;
use std::sync::Arc;

/// What a run has of them.
pub(super) struct Arriving {
    pub(super) server: Arc<Server>,
    dialler: Arc<dyn Dialler>,
    pub(super) session: Session,
    pub(super) shape: Shape,
    widths: Widths,
    this: Try,
    pub(super) receiver: Receiver,
    /// Bytes that were sent.
    pub(super) bytes: u64,
}

impl Arriving {
    /// Gets in and looks at the table. Numbers in JSON may have so many digits.
    pub(super) async fn begin(
        server: &Arc<Server>,
        dialler: Arc<dyn Dialler>,
        run: &RunScope,
        digits_max: usize,
    ) -> Result<Self, ExportError> {
        let session = Session::open(server, &*dialler).await?;
        let shape = shape::prepare(&session, server).await?;
        Ok(Self {
            server: Arc::clone(server),
            dialler,
            session,
            widths: shape.widths(server),
            shape,
            this: Try::new(run_key(run)),
            receiver: Receiver::new(digits_max),
            bytes: 0,
        })
    }

    /// Counts a line, and hands over its values as they fit into the table.
    pub(super) fn take(
        &mut self,
        line: &[u8],
        values: impl FnOnce(Vec<Cell<'_>>),
    ) -> Result<(), ExportError> {
        let line = self.receiver.take(line);
        let layout = self.server.layout;
        let mut cells = layout.cells(&line)?;
        // A line that was changed already is counted as such.
        if fit(layout, &mut cells, &self.widths) && matches!(line, Cow::Borrowed(_)) {
            self.receiver.rows_changed += 1;
        }
        values(cells);
        Ok(())
    }

    /// Carries out the statements of the transaction, once so many rows are there.
    pub(super) async fn publish(
        mut self,
        rows: u64,
        statements: &[String],
    ) -> Result<Delivered, ExportError> {
        self.this.rows = rows;
        let (server, dialler) = (&self.server, &*self.dialler);
        publish(self.session, server, dialler, &self.this, statements).await?;
        Ok(Delivered {
            rows: Some(rows),
            bytes: self.bytes,
            rows_changed: self.receiver.rows_changed,
        })
    }
}
