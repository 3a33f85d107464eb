//! Rows of a run in the temporary table, whatever statements put them there.

use super::publish::{RunAttempt, publish};
use super::server::Server;
use super::session::Session;
use super::table_schema::{self, TableSchema};
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

/// Rows of a run in the temporary table, and the session that has it.
pub(super) struct StagedRows {
    pub(super) server: Arc<Server>,
    dialler: Arc<dyn Dialler>,
    pub(super) session: Session,
    pub(super) table_schema: TableSchema,
    widths: Widths,
    this: RunAttempt,
    pub(super) receiver: Receiver,
    /// Bytes that were sent.
    pub(super) bytes: u64,
}

impl StagedRows {
    /// Logs in and prepares the table. Numbers in JSON may have `digits_max` digits.
    pub(super) async fn begin(
        server: &Arc<Server>,
        dialler: Arc<dyn Dialler>,
        run: &RunScope,
        digits_max: usize,
    ) -> Result<Self, ExportError> {
        let session = Session::open(server, &*dialler).await?;
        let table_schema = table_schema::prepare(&session, server).await?;
        Ok(Self {
            server: Arc::clone(server),
            dialler,
            session,
            widths: table_schema.widths(server),
            table_schema,
            this: RunAttempt::new(run_key(run)),
            receiver: Receiver::new(digits_max),
            bytes: 0,
        })
    }

    /// Counts a line, and hands over its values, shortened to fit into the table.
    pub(super) fn take(
        &mut self,
        line: &[u8],
        values: impl FnOnce(Vec<Cell<'_>>),
    ) -> Result<(), ExportError> {
        let line = self.receiver.take(line);
        let layout = self.server.layout;
        let mut cells = layout.cells(&line)?;
        // A line that was changed before is counted already.
        if fit(layout, &mut cells, &self.widths) && matches!(line, Cow::Borrowed(_)) {
            self.receiver.rows_changed += 1;
        }
        values(cells);
        Ok(())
    }

    /// Runs the statements of the transaction, once this number of rows is in the temporary table.
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
