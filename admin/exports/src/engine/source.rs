//! Rows that a run reads.

use super::state::Inner;
use crate::error::{ExportError, ExportErrorKind};
use crate::query::ExportQuery;
use crate::rows::{
    EventFilter, Part, RowCounter, RowForm, Statement, WindowQuery, options, read_failure,
};
use crate::window::RunScope;
use bytes::Bytes;
use millrace_catalog::BatchExport;
use millrace_clickhouse::{QueryError, RowStream};
use serde_json::Value;
use uuid::Uuid;

/// Rows of one run, and how to read them.
pub(super) struct RunSource<'a> {
    inner: &'a Inner,
    scope: &'a RunScope,
    filter: EventFilter,
    query: Option<ExportQuery>,
}

/// Reader of one part of a run's rows.
pub(super) struct Reader<'a> {
    inner: &'a Inner,
    stream: RowStream,
    counter: RowCounter,
    export_id: Uuid,
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
        self.number(&self.window_query().count(Part::WHOLE)?).await
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
    pub(super) fn read(&self, form: RowForm, part: Part) -> Result<Reader<'a>, ExportError> {
        let statement = self.window_query().statement(form, part)?;
        let options = options(&statement, self.query_id());
        let (inner, export_id) = (self.inner, self.scope.export_id);
        let stream = inner.clickhouse.read(&statement.sql, &options);
        let stream =
            stream.map_err(|error| failure(inner, export_id, &error, statement.is_of_customer))?;
        Ok(Reader {
            inner,
            stream,
            counter: RowCounter::new(form),
            export_id,
            is_of_customer: statement.is_of_customer,
        })
    }

    async fn number(&self, statement: &Statement) -> Result<u64, ExportError> {
        let options = options(statement, self.query_id());
        let asked = self.inner.clickhouse.read_number(&statement.sql, &options);
        asked.await.map_err(|error| {
            let export_id = self.scope.export_id;
            failure(self.inner, export_id, &error, statement.is_of_customer)
        })
    }

    fn query_id(&self) -> String {
        format!("export-{}-{}", self.scope.run_id, Uuid::new_v4())
    }
}

impl Reader<'_> {
    /// Reads the next bytes; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ExportError> {
        let piece = self.stream.next().await;
        let (inner, export_id) = (self.inner, self.export_id);
        let piece =
            piece.map_err(|error| failure(inner, export_id, &error, self.is_of_customer))?;
        if let Some(piece) = &piece {
            self.counter.update(piece).map_err(broken)?;
        }
        Ok(piece)
    }

    /// Number of rows read so far; 0 where the format does not tell.
    pub(super) fn so_far(&self) -> u64 {
        self.counter.so_far().unwrap_or(0)
    }

    /// Returns the number of rows once all were read.
    pub(super) fn finish(self) -> Result<u64, ExportError> {
        self.counter.finish().map_err(broken)
    }
}

/// Converts an error of ClickHouse. The operator has to mend what an export waits for, and
/// customers are told nothing of it: so the log has it.
fn failure(
    inner: &Inner,
    export_id: Uuid,
    error: &QueryError,
    is_of_customer: bool,
) -> ExportError {
    let failure = read_failure(error, is_of_customer);
    // The message repeats the statement, which differs from try to try.
    let cause = || format!("{export_id}: {}", error.cause());
    if failure.kind == ExportErrorKind::Waiting && inner.is_logged("read", &cause()) {
        tracing::warn!(%error, %export_id, "an export waits for ClickHouse");
    }
    failure
}

fn broken(error: crate::rows::CountError) -> ExportError {
    ExportError::retryable(format!("The rows did not come whole: {error}."))
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
