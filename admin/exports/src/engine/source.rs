//! What a run reads.

use crate::error::ExportError;
use crate::query::ExportQuery;
use crate::rows::{
    EventFilter, Part, Reading, RowCounter, RowForm, Statement, options, read_failure,
};
use crate::window::RunScope;
use bytes::Bytes;
use millrace_catalog::BatchExport;
use millrace_clickhouse::{ClickHouse, RowStream};
use serde_json::Value;
use uuid::Uuid;

/// The rows of one run.
pub(super) struct Source<'a> {
    clickhouse: &'a ClickHouse,
    scope: &'a RunScope,
    filter: EventFilter,
    query: Option<ExportQuery>,
}

/// One part of them on its way.
pub(super) struct Reader {
    stream: RowStream,
    counter: RowCounter,
    is_of_customer: bool,
}

impl<'a> Source<'a> {
    /// As the export says at this moment.
    pub(super) fn of(
        clickhouse: &'a ClickHouse,
        export: &BatchExport,
        scope: &'a RunScope,
    ) -> Result<Self, ExportError> {
        let query = export.hogql_query.as_deref().map(ExportQuery::parse);
        let query = query.transpose().map_err(|error| {
            ExportError::hopeless(format!("The export's query is not taken any more: {error}"))
        })?;
        Ok(Self {
            clickhouse,
            scope,
            filter: filter(&export.destination_config),
            query,
        })
    }

    pub(super) fn reading(&self) -> Reading<'_> {
        Reading {
            clickhouse: self.clickhouse,
            scope: self.scope,
            filter: &self.filter,
            query: self.query.as_ref(),
        }
    }

    /// Whether its rows are made of what events say of persons and groups.
    pub(super) fn is_of_persons(&self) -> bool {
        self.reading().source() != crate::query::Source::Events
    }

    /// How many rows there are.
    pub(super) async fn count(&self) -> Result<u64, ExportError> {
        self.number(&self.reading().count(Part::WHOLE)?).await
    }

    /// How large so many of them are, in bytes before compression: an estimate.
    pub(super) async fn bytes_estimate(&self, rows: u64) -> Result<u64, ExportError> {
        let row_bytes = self.number(&self.reading().row_bytes()?).await?;
        Ok(row_bytes.saturating_mul(rows))
    }

    /// Whether they can be read in several parts.
    pub(super) fn has_parts(&self) -> bool {
        self.reading().has_parts()
    }

    /// Reads a part.
    pub(super) fn read(&self, form: RowForm, part: Part) -> Result<Reader, ExportError> {
        let statement = self.reading().statement(form, part)?;
        let options = options(&statement, self.query_id());
        let stream = self.clickhouse.read(&statement.sql, &options);
        Ok(Reader {
            stream: stream.map_err(|error| read_failure(&error, statement.is_of_customer))?,
            counter: RowCounter::new(form),
            is_of_customer: statement.is_of_customer,
        })
    }

    async fn number(&self, statement: &Statement) -> Result<u64, ExportError> {
        let options = options(statement, self.query_id());
        let asked = self.clickhouse.read_number(&statement.sql, &options);
        asked
            .await
            .map_err(|error| read_failure(&error, statement.is_of_customer))
    }

    fn query_id(&self) -> String {
        format!("export-{}-{}", self.scope.run_id, Uuid::new_v4())
    }
}

impl Reader {
    /// The next bytes; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ExportError> {
        let piece = self.stream.next().await;
        let piece = piece.map_err(|error| read_failure(&error, self.is_of_customer))?;
        if let Some(piece) = &piece {
            self.counter.update(piece).map_err(broken)?;
        }
        Ok(piece)
    }

    /// How many rows came by so far, where that can be told.
    pub(super) fn so_far(&self) -> u64 {
        self.counter.so_far().unwrap_or(0)
    }

    /// How many there were.
    pub(super) fn finish(self) -> Result<u64, ExportError> {
        self.counter.finish().map_err(broken)
    }
}

fn broken(error: crate::rows::CountError) -> ExportError {
    ExportError::retry(format!("The rows did not come whole: {error}."))
}

/// Which events the configuration names.
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
