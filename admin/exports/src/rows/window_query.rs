//! Statements that read the rows of a window.

use super::settings::format_settings;
use super::statement::{Settings, Statement};
use super::{RowForm, columns};
use crate::error::ExportError;
use crate::query::{ExportQuery, Source};
use crate::window::{RunScope, Window, WindowBy};
use millrace_catalog::{ExportModel, UtcTime};
use millrace_clickhouse::{ClickHouse, quoted_text};
use millrace_rows::Table;

/// Rows that are sampled to estimate the size of one.
const SAMPLE_ROWS: u32 = 10_000;

/// Filter of a window's events by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Events to export; all if there are none.
    pub include: Vec<String>,
    /// Events to leave out.
    pub exclude: Vec<String>,
}

/// Part of a window's rows, by a hash of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPart {
    /// Index of the part, from 0.
    pub index: u32,
    /// Number of parts, 1 or more.
    pub count: u32,
}

impl WindowPart {
    /// All rows as one part.
    pub const WHOLE: Self = Self { index: 0, count: 1 };
}

/// Query of a window's rows.
#[derive(Clone, Copy, Debug)]
pub struct WindowQuery<'a> {
    /// ClickHouse that has the rows.
    pub clickhouse: &'a ClickHouse,
    /// Project and window of the rows.
    pub scope: &'a RunScope,
    /// Filter of events.
    pub filter: &'a EventFilter,
    /// Customer's query over the rows; `None`: the rows as they are.
    pub query: Option<&'a ExportQuery>,
}

impl WindowQuery<'_> {
    /// Returns true if the rows can be read in several parts.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        !self.query.is_some_and(ExportQuery::is_aggregating)
    }

    /// Statement that reads one part of the rows in a form.
    ///
    /// # Errors
    /// The form does not support such rows or the compression, or the query aggregates rows and
    /// cannot be split into parts.
    pub fn statement(&self, form: RowForm, part: WindowPart) -> Result<Statement, ExportError> {
        let rows = self.rows(part)?;
        let sql = match self.query {
            Some(query) => format!(
                "{} FORMAT {}",
                query.over(&rows),
                columns::format_of_query(form)
            ),
            None => {
                let (columns, format) = match self.source() {
                    Source::Events => columns::of_events(form),
                    Source::Persons => columns::of_persons(form)?,
                    Source::Groups => columns::of_groups(form)?,
                };
                format!("SELECT {columns} FROM ({rows}) FORMAT {format}")
            }
        };
        Ok(self.statement_of(sql, format_settings(form)?))
    }

    /// Statement that counts the rows of a part: one number.
    ///
    /// # Errors
    /// As [`WindowQuery::statement`].
    pub fn count(&self, part: WindowPart) -> Result<Statement, ExportError> {
        let rows = self.result_rows(part)?;
        Ok(self.statement_of(format!("SELECT count() FROM ({rows})"), Settings::new()))
    }

    /// Statement that estimates the size of a row in bytes, before compression: one number.
    ///
    /// # Errors
    /// As [`WindowQuery::statement`].
    pub fn row_bytes(&self) -> Result<Statement, ExportError> {
        let rows = self.result_rows(WindowPart::WHOLE)?;
        let sql = format!(
            "SELECT toUInt64(ifNotFinite(avg(byteSize(*)), 0)) \
             FROM (SELECT * FROM ({rows}) LIMIT {SAMPLE_ROWS})"
        );
        Ok(self.statement_of(sql, Settings::new()))
    }

    /// Statement with this text; the customer's, if the export has a query of its own.
    fn statement_of(&self, sql: String, settings: Settings) -> Statement {
        Statement {
            sql,
            settings,
            is_of_customer: self.query.is_some(),
        }
    }

    /// SELECT of the result's rows.
    fn result_rows(&self, part: WindowPart) -> Result<String, ExportError> {
        let rows = self.rows(part)?;
        Ok(match self.query {
            Some(query) => query.over(&rows),
            None => rows,
        })
    }

    /// SELECT of the rows that may be seen: those of the project, the window and the part.
    pub(super) fn rows(&self, part: WindowPart) -> Result<String, ExportError> {
        let WindowPart { index, count } = part;
        if count > 1 && !self.has_parts() {
            return Err(ExportError::permanent(
                "The query makes rows of several others, so its result cannot be cut into files: \
                 omit max_file_size_mb.",
            ));
        }
        let of_part = |id: &str| {
            let condition = format!("cityHash64({id}) % {count} = {index}");
            (count > 1).then_some(condition)
        };
        Ok(match self.source() {
            Source::Events => {
                let mut conditions = vec![format!("team_id = {}", self.scope.project_id.0)];
                conditions.extend(window(&self.scope.window));
                conditions.extend(names("IN", &self.filter.include));
                conditions.extend(names("NOT IN", &self.filter.exclude));
                conditions.extend(of_part("uuid"));
                let table = self.clickhouse.source(Table::Events);
                let conditions = conditions.join(" AND ");
                // A customer's conditions apply after these, and not while rows are read: see
                // `settings`.
                let (columns, word) = match self.query {
                    Some(_) => (columns::visible(), "PREWHERE"),
                    None => (columns::STORED.to_owned(), "WHERE"),
                };
                format!("SELECT {columns} FROM {table} {word} {conditions}")
            }
            Source::Persons => self.persons(of_part("distinct_id")),
            Source::Groups => self.groups(of_part("group_key")),
        })
    }

    /// Table of the rows: the only place that knows all of them.
    #[must_use]
    pub fn source(&self) -> Source {
        match (self.query, self.scope.model) {
            (Some(query), _) => query.source(),
            (None, ExportModel::Events) => Source::Events,
            (None, ExportModel::Persons) => Source::Persons,
        }
    }
}

fn window(window: &Window) -> Vec<String> {
    let (column, arrived_before) = match window.by {
        WindowBy::Arrival => ("created_at", None),
        WindowBy::Timestamp { arrived_before } => ("timestamp", Some(arrived_before)),
    };
    let start = window
        .start
        .map(|start| format!("{column} >= {}", instant(start)));
    let end = format!("{column} < {}", instant(window.end));
    let arrived = arrived_before.map(|before| format!("created_at < {}", instant(before)));
    start.into_iter().chain([end]).chain(arrived).collect()
}

fn instant(at: UtcTime) -> String {
    format!("fromUnixTimestamp64Micro({}, 'UTC')", at.0)
}

fn names(operator: &str, names: &[String]) -> Option<String> {
    let list: Vec<String> = names.iter().map(|name| quoted_text(name)).collect();
    (!list.is_empty()).then(|| format!("event {operator} ({})", list.join(", ")))
}
