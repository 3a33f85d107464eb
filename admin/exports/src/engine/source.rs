//! Rows that a run reads.

use super::state::Inner;
use crate::error::{ExportError, ExportErrorKind};
use crate::query::ExportQuery;
use crate::rows::{
    EventFilter, RowCounter, RowForm, Statement, WindowPart, WindowQuery, options, read_failure,
};
use crate::window::RunScope;
use bytes::Bytes;
use millrace_catalog::BatchExport;
use millrace_clickhouse::{QueryError, QueryErrorKind, ReadOptions, RowStream};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;

/// Name under which exports ask for ClickHouse's boot id.
const BOOT_ID_SCOPE: &str = "exports";

/// Rows of one run, and how to read them.
pub(super) struct RunSource<'a> {
    inner: &'a Inner,
    scope: &'a RunScope,
    filter: EventFilter,
    query: Option<ExportQuery>,
    failures: Failures<'a>,
}

/// Reader of one part of a run's rows.
pub(super) struct Reader<'a> {
    stream: RowStream,
    counter: RowCounter,
    failures: Failures<'a>,
    is_of_customer: bool,
}

impl<'a> RunSource<'a> {
    /// Creates the source from the export's current settings.
    pub(super) fn of(
        inner: &'a Inner,
        export: &BatchExport,
        scope: &'a RunScope,
    ) -> Result<Self, ExportError> {
        let query = export.hogql_query.as_deref().map(ExportQuery::parse);
        let query = query.transpose().map_err(|error| {
            ExportError::permanent(format!(
                "The export's query is not accepted any more: {error}"
            ))
        })?;
        Ok(Self {
            inner,
            scope,
            filter: filter(&export.destination_config),
            query,
            failures: Failures {
                inner,
                export_id: scope.export_id,
                is_lost: Arc::default(),
            },
        })
    }

    pub(super) fn window_query(&self) -> WindowQuery<'_> {
        WindowQuery {
            clickhouse: &self.inner.clickhouse,
            scope: self.scope,
            filter: &self.filter,
            query: self.query.as_ref(),
        }
    }

    /// Returns true if the rows come from persons or groups.
    pub(super) fn is_of_persons(&self) -> bool {
        self.window_query().source() != crate::query::Source::Events
    }

    /// Counts the rows.
    pub(super) async fn count(&self) -> Result<u64, ExportError> {
        self.number(&self.window_query().count(WindowPart::WHOLE)?)
            .await
    }

    /// Estimates the size of a number of rows, in bytes before compression.
    pub(super) async fn bytes_estimate(&self, rows: u64) -> Result<u64, ExportError> {
        let row_bytes = self.number(&self.window_query().row_bytes()?).await?;
        Ok(row_bytes.saturating_mul(rows))
    }

    /// Returns true if the rows can be read in several parts.
    pub(super) fn has_parts(&self) -> bool {
        self.window_query().has_parts()
    }

    /// Reads a part.
    pub(super) async fn read(
        &self,
        form: RowForm,
        part: WindowPart,
    ) -> Result<Reader<'a>, ExportError> {
        let statement = self.window_query().statement(form, part)?;
        let options = self.options(&statement).await?;
        let stream = self.inner.clickhouse.read(&statement.sql, &options);
        let (failures, is_of_customer) = (self.failures.clone(), statement.is_of_customer);
        Ok(Reader {
            stream: stream.map_err(|error| failures.convert(&error, is_of_customer))?,
            counter: RowCounter::new(form),
            failures,
            is_of_customer,
        })
    }

    /// Options of a statement; a customer's has the login of its project.
    async fn options(&self, statement: &Statement) -> Result<ReadOptions, ExportError> {
        let mut options = options(statement, self.query_id());
        if statement.is_of_customer
            && let Some(logins) = self.inner.logins.get()
        {
            let login = logins.login(self.scope.project_id.0).await;
            options.login = login.map_err(|error| self.failures.convert(&error, false))?;
        }
        Ok(options)
    }

    async fn number(&self, statement: &Statement) -> Result<u64, ExportError> {
        let options = self.options(statement).await?;
        let asked = self.inner.clickhouse.read_number(&statement.sql, &options);
        asked
            .await
            .map_err(|error| self.failures.convert(&error, statement.is_of_customer))
    }

    /// Asks for ClickHouse's boot id, where a customer's query is about to run. `None`: it is no
    /// customer's, or a cluster's, whose hosts have boot ids of their own.
    pub(super) async fn boot_id(&self) -> Result<Option<Uuid>, ExportError> {
        if self.query.is_none() || self.inner.clickhouse.is_cluster() {
            return Ok(None);
        }
        let asked = self.inner.clickhouse.server_boot_id(BOOT_ID_SCOPE).await;
        asked
            .map(Some)
            .map_err(|error| self.failures.convert(&error, false))
    }

    /// Returns true if ClickHouse did not answer a customer's query to its end.
    pub(super) fn is_lost(&self) -> bool {
        self.failures.is_lost.load(Ordering::Relaxed)
    }

    fn query_id(&self) -> String {
        format!("export-{}-{}", self.scope.run_id, Uuid::new_v4())
    }
}

impl Reader<'_> {
    /// Reads the next bytes; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ExportError> {
        let piece = self.stream.next().await;
        let piece = piece.map_err(|error| self.failures.convert(&error, self.is_of_customer))?;
        if let Some(piece) = &piece {
            self.counter.update(piece).map_err(incomplete_rows)?;
        }
        Ok(piece)
    }

    /// Number of rows read so far; 0 where the format does not tell.
    pub(super) fn so_far(&self) -> u64 {
        self.counter.so_far().unwrap_or(0)
    }

    /// Returns the number of rows once all were read.
    pub(super) fn finish(self) -> Result<u64, ExportError> {
        self.counter.finish().map_err(incomplete_rows)
    }
}

/// Errors of ClickHouse in one try of a run.
#[derive(Clone)]
struct Failures<'a> {
    inner: &'a Inner,
    export_id: Uuid,
    /// True once the answer to a customer's query was lost.
    is_lost: Arc<AtomicBool>,
}

impl Failures<'_> {
    /// Converts an error of ClickHouse. The operator has to mend what an export waits for, and
    /// customers are told nothing of it: so the log has it.
    fn convert(&self, error: &QueryError, is_of_customer: bool) -> ExportError {
        if is_of_customer && is_unanswered(error) {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        let failure = read_failure(error, is_of_customer);
        let export_id = self.export_id;
        // The message repeats the statement, which differs from try to try.
        let cause = || format!("{export_id}: {}", error.cause());
        if failure.kind == ExportErrorKind::Waiting && self.inner.is_logged("read", &cause()) {
            tracing::warn!(%error, %export_id, "an export waits for ClickHouse");
        }
        failure
    }
}

/// Returns true if a statement was sent, and ClickHouse did not tell how it ended.
fn is_unanswered(error: &QueryError) -> bool {
    error.code.is_none() && error.kind != QueryErrorKind::NoConnection
}

/// Error for rows that did not arrive complete.
fn incomplete_rows(error: crate::rows::CountError) -> ExportError {
    ExportError::retryable(format!("The rows did not arrive complete: {error}."))
}

/// Event filter of an export's configuration.
fn filter(config: &Value) -> EventFilter {
    let names = |field: &str| {
        let names = config.get(field).and_then(Value::as_array);
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    };
    EventFilter {
        include: names("include_events"),
        exclude: names("exclude_events"),
    }
}
