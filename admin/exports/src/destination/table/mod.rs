//! Tables of events or persons: their columns, and the values of a row.
//!
//! | Module | Holds |
//! |---|---|
//! | `row` | rows as ClickHouse writes them for tables |
//! | `width` | shortens values that are wider than their column |
//! | `receiver` | splits bytes into lines, and counts rows and changed rows |

pub(crate) mod receiver;
pub(crate) mod row;
pub(crate) mod width;

use crate::error::ExportError;
use crate::window::{RunScope, WindowBy};
use millrace_catalog::ExportModel;
use row::Cell;

/// Type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    /// Text.
    Text,
    /// JSON, where the destination has a type for it.
    Json,
    /// Integer.
    Integer,
    /// Integer that may have 64 bits.
    Long,
    /// Point in time.
    Time,
}

/// Column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) column_type: ColumnType,
}

/// Layout of a table: columns, key and versions.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Name of its rows, and of the table where no other name is given.
    pub(crate) rows: &'static str,
    /// Columns in the order of the table, which is that of a row's values.
    pub(crate) columns: &'static [Column],
    /// Columns by which a row is found again.
    pub(crate) key: &'static [&'static str],
    /// Version columns: a row with lower versions than the stored row is left out. The first
    /// version that differs decides.
    pub(crate) versions: &'static [&'static str],
    /// Column that decides between rows of one key within a run: the greatest value wins.
    pub(crate) newest: &'static str,
    /// Reads the values of a line.
    read: for<'a> fn(&'a str) -> serde_json::Result<Vec<Cell<'a>>>,
}

const fn column(name: &'static str, column_type: ColumnType) -> Column {
    Column { name, column_type }
}

/// Layout of a table of events.
pub(crate) static EVENTS: Layout = Layout {
    rows: "events",
    columns: &[
        column("uuid", ColumnType::Text),
        column("event", ColumnType::Text),
        column("properties", ColumnType::Json),
        column("elements", ColumnType::Json),
        column("set", ColumnType::Json),
        column("set_once", ColumnType::Json),
        column("distinct_id", ColumnType::Text),
        column("team_id", ColumnType::Integer),
        column("ip", ColumnType::Text),
        column("site_url", ColumnType::Text),
        column("timestamp", ColumnType::Time),
    ],
    key: &["uuid"],
    versions: &[],
    newest: "timestamp",
    read: row::of_event,
};

/// Layout of a table of persons, with a row for each of their distinct ids. An id that moves to
/// another person has a new version of its own, so that version is compared first.
pub(crate) static PERSONS: Layout = Layout {
    rows: "persons",
    columns: &[
        column("team_id", ColumnType::Integer),
        column("distinct_id", ColumnType::Text),
        column("person_id", ColumnType::Text),
        column("properties", ColumnType::Json),
        column("person_distinct_id_version", ColumnType::Long),
        column("person_version", ColumnType::Long),
        column("created_at", ColumnType::Time),
    ],
    key: &["team_id", "distinct_id"],
    versions: &["person_distinct_id_version", "person_version"],
    newest: "person_version",
    read: row::of_person,
};

impl Layout {
    /// Layout of the table for a model.
    pub(crate) const fn of(model: ExportModel) -> &'static Self {
        match model {
            ExportModel::Events => &EVENTS,
            ExportModel::Persons => &PERSONS,
        }
    }

    /// Reads the storable values of a line, in the order of the columns.
    ///
    /// # Errors
    /// The line has other columns.
    pub(crate) fn cells<'a>(&self, line: &'a str) -> Result<Vec<Cell<'a>>, ExportError> {
        (self.read)(line).map_err(|_| {
            // The row is not repeated: it would end up in the log.
            ExportError::permanent(format!(
                "A row has other columns than a table of {}: without a query of its own, an export \
                 to tables always has the right ones.",
                self.rows
            ))
        })
    }

    pub(crate) fn is_key(&self, column: Column) -> bool {
        self.key.contains(&column.name)
    }

    /// Formats each column, with commas between.
    pub(crate) fn joined(&self, each: impl Fn(Column) -> String) -> String {
        let columns = self.columns.iter().map(|column| each(*column));
        columns.collect::<Vec<_>>().join(", ")
    }
}

/// Quotes a name in SQL with quotes of this kind.
pub(crate) fn quoted_in(quote: char, name: &str) -> String {
    let doubled = name.replace(quote, &format!("{quote}{quote}"));
    format!("{quote}{doubled}{quote}")
}

/// Key of an export's window, the same for every try. A backfill by timestamp over the same range
/// has another key.
pub(crate) fn run_key(run: &RunScope) -> String {
    let by = match run.window.by {
        WindowBy::Arrival => "arrival",
        WindowBy::Timestamp { .. } => "timestamp",
    };
    let start = run.window.start.map(|start| start.to_string());
    let start = start.as_deref().unwrap_or("beginning");
    format!("{}/{by}/{start}/{}", run.export_id, run.window.end)
}
