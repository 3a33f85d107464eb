//! What of a window is read, as statements.

use super::settings::{Settings, of_form};
use super::{RowForm, columns};
use crate::error::ExportError;
use crate::query::{ExportQuery, Source};
use crate::window::{RunScope, Window, WindowBy};
use millrace_catalog::{ExportModel, UtcTime};
use millrace_clickhouse::{ClickHouse, quoted_text};
use millrace_rows::Table;

/// Rows that are looked at to know how large one is.
const SAMPLE_ROWS: u32 = 10_000;

/// Which events of a window, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Only these; all if there are none.
    pub include: Vec<String>,
    /// Not these.
    pub exclude: Vec<String>,
}

/// A share of the rows of a window: those whose ids fall to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which one, from 0.
    pub index: u32,
    /// Of how many, 1 or more.
    pub count: u32,
}

impl Part {
    /// All rows.
    pub const WHOLE: Self = Self { index: 0, count: 1 };
}

/// A statement and what it is to be run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// A SELECT with its FORMAT.
    pub sql: String,
    /// What the format needs; not in the text, as a statement that may only read may not set
    /// anything.
    pub settings: Settings,
    /// Whether a customer wrote it: then its limits are tighter, and its faults are theirs.
    pub is_of_customer: bool,
}

/// What of a window is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// Where it is stored.
    pub clickhouse: &'a ClickHouse,
    /// Whose rows, of which window.
    pub scope: &'a RunScope,
    /// Which events.
    pub filter: &'a EventFilter,
    /// What the customer makes of them; `None`: the rows as they are.
    pub query: Option<&'a ExportQuery>,
}

impl Reading<'_> {
    /// Whether the rows can be read in several parts.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        !self.query.is_some_and(ExportQuery::is_aggregating)
    }

    /// Reads one part of the rows in a form.
    ///
    /// # Errors
    /// The form has no such rows or no such compression, or the query makes rows of several and
    /// cannot be taken in parts.
    pub fn statement(&self, form: RowForm, part: Part) -> Result<Statement, ExportError> {
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
        Ok(self.made(sql, of_form(form)?))
    }

    /// Asks how many rows a part has: one number.
    ///
    /// # Errors
    /// As [`Reading::statement`].
    pub fn count(&self, part: Part) -> Result<Statement, ExportError> {
        let rows = self.answered(part)?;
        Ok(self.made(format!("SELECT count() FROM ({rows})"), Settings::new()))
    }

    /// Asks how large a row is, in bytes, before compression: one number, an estimate.
    ///
    /// # Errors
    /// As [`Reading::statement`].
    pub fn row_bytes(&self) -> Result<Statement, ExportError> {
        let rows = self.answered(Part::WHOLE)?;
        let sql = format!(
            "SELECT toUInt64(ifNotFinite(avg(byteSize(*)), 0)) \
             FROM (SELECT * FROM ({rows}) LIMIT {SAMPLE_ROWS})"
        );
        Ok(self.made(sql, Settings::new()))
    }

    fn made(&self, sql: String, settings: Settings) -> Statement {
        Statement {
            sql,
            settings,
            is_of_customer: self.query.is_some(),
        }
    }

    /// The rows that are answered, as a SELECT.
    fn answered(&self, part: Part) -> Result<String, ExportError> {
        let rows = self.rows(part)?;
        Ok(match self.query {
            Some(query) => query.over(&rows),
            None => rows,
        })
    }

    /// The rows that may be seen, as a SELECT: of the project, the window, the part.
    pub(super) fn rows(&self, part: Part) -> Result<String, ExportError> {
        let Part { index, count } = part;
        if count > 1 && !self.has_parts() {
            return Err(ExportError::hopeless(
                "The query makes rows of several others, so its result cannot be cut into files: \
                 leave out max_file_size_mb.",
            ));
        }
        let of_part = |id: &str| {
            let condition = format!("cityHash64({id}) % {count} = {index}");
            (count > 1).then_some(condition)
        };
        Ok(match self.source() {
            Source::Events => {
                let mut conditions = vec![format!("team_id = {}", self.scope.team_id.0)];
                conditions.extend(window(&self.scope.window));
                conditions.extend(names("IN", &self.filter.include));
                conditions.extend(names("NOT IN", &self.filter.exclude));
                conditions.extend(of_part("uuid"));
                let (columns, table) = (columns::STORED, self.clickhouse.source(Table::Events));
                let conditions = conditions.join(" AND ");
                // A customer's conditions come after that, and not while rows are read: see `settings`.
                let word = if self.query.is_some() {
                    "PREWHERE"
                } else {
                    "WHERE"
                };
                format!("SELECT {columns} FROM {table} {word} {conditions}")
            }
            Source::Persons => self.persons(of_part("distinct_id")),
            Source::Groups => self.groups(of_part("group_key")),
        })
    }

    /// What rows are made of: the one place that knows which sources there are.
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
