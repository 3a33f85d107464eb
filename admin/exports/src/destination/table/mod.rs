//! Tables of events or persons: which columns they have, and the values of a row.
//!
//! | Module | Holds |
//! |---|---|
//! | `row` | a row as ClickHouse writes it for tables |
//! | `width` | what is done with values that are wider than their column |
//! | `receiver` | bytes in, values out, and what was changed counted |

pub(crate) mod receiver;
pub(crate) mod row;
pub(crate) mod width;

use crate::error::ExportError;
use crate::window::{RunScope, WindowBy};
use millrace_catalog::ExportModel;
use row::Cell;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// A text.
    Text,
    /// JSON, where the store has a type for it.
    Json,
    /// A whole number.
    Integer,
    /// A whole number that may have 64 bits.
    Long,
    /// A point in time.
    Time,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) holds: Holds,
}

/// What a table is made of.
#[derive(Debug)]
pub(crate) struct Layout {
    /// What its rows are called, and the table itself where no other name is given.
    pub(crate) rows: &'static str,
    /// The columns in the order of the table, which is that of a row's values.
    pub(crate) columns: &'static [Column],
    /// The columns by which a row is found again.
    pub(crate) key: &'static [&'static str],
    /// Versions: a row whose versions are lower than those of the one that is there is left out.
    /// The first one that differs decides.
    pub(crate) versions: &'static [&'static str],
    /// What rows of one key within a run are told apart by: the greatest is taken.
    pub(crate) newest: &'static str,
    /// The values of a line.
    read: for<'a> fn(&'a str) -> serde_json::Result<Vec<Cell<'a>>>,
}

const fn column(name: &'static str, holds: Holds) -> Column {
    Column { name, holds }
}

/// A table of events.
pub(crate) static EVENTS: Layout = Layout {
    rows: "events",
    columns: &[
        column("uuid", Holds::Text),
        column("event", Holds::Text),
        column("properties", Holds::Json),
        column("elements", Holds::Json),
        column("set", Holds::Json),
        column("set_once", Holds::Json),
        column("distinct_id", Holds::Text),
        column("team_id", Holds::Integer),
        column("ip", Holds::Text),
        column("site_url", Holds::Text),
        column("timestamp", Holds::Time),
    ],
    key: &["uuid"],
    versions: &[],
    newest: "timestamp",
    read: row::of_event,
};

/// A table of persons: a row for each of their distinct ids. An id that goes over to another
/// person has a new version of its own, so that one is looked at first.
pub(crate) static PERSONS: Layout = Layout {
    rows: "persons",
    columns: &[
        column("team_id", Holds::Integer),
        column("distinct_id", Holds::Text),
        column("person_id", Holds::Text),
        column("properties", Holds::Json),
        column("person_distinct_id_version", Holds::Long),
        column("person_version", Holds::Long),
        column("created_at", Holds::Time),
    ],
    key: &["team_id", "distinct_id"],
    versions: &["person_distinct_id_version", "person_version"],
    newest: "person_version",
    read: row::of_person,
};

impl Layout {
    /// The table of what an export brings.
    pub(crate) const fn of(model: ExportModel) -> &'static Self {
        match model {
            ExportModel::Events => &EVENTS,
            ExportModel::Persons => &PERSONS,
        }
    }

    /// The values of a line that can be stored, in the order of the columns.
    ///
    /// # Errors
    /// It has other columns.
    pub(crate) fn cells<'a>(&self, line: &'a str) -> Result<Vec<Cell<'a>>, ExportError> {
        (self.read)(line).map_err(|_| {
            // The row is the customer's, but a log is no place for it.
            ExportError::hopeless(format!(
                "A row has other columns than a table of {}: without a query of its own, an export \
                 to tables always has the right ones.",
                self.rows
            ))
        })
    }

    pub(crate) fn is_key(&self, column: Column) -> bool {
        self.key.contains(&column.name)
    }

    /// Something of each column, with commas between.
    pub(crate) fn joined(&self, each: impl Fn(Column) -> String) -> String {
        let columns = self.columns.iter().map(|column| each(*column));
        columns.collect::<Vec<_>>().join(", ")
    }
}

/// A name between quotes of this kind, as SQL has it.
pub(crate) fn quoted_in(quote: char, name: &str) -> String {
    let doubled = name.replace(quote, &format!("{quote}{quote}"));
    format!("{quote}{doubled}{quote}")
}

/// What tells a window of an export from all others, whoever runs it how often: a backfill over
/// a window has a key of its own.
pub(crate) fn run_key(run: &RunScope) -> String {
    let by = match run.window.by {
        WindowBy::Arrival => "arrival",
        WindowBy::Timestamp { .. } => "timestamp",
    };
    let start = run.window.start.map(|start| start.to_string());
    let start = start.as_deref().unwrap_or("beginning");
    format!("{}/{by}/{start}/{}", run.export_id, run.window.end)
}
