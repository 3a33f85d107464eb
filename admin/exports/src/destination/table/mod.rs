//! Tables of events: which columns they have, and the values of a row.
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

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// A text.
    Text,
    /// JSON, where the store has a type for it.
    Json,
    /// A whole number.
    Integer,
    /// A point in time.
    Time,
}

/// A column of a table of events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) holds: Holds,
}

/// How many columns there are.
pub(crate) const COLUMNS_COUNT: usize = 11;

const fn column(name: &'static str, holds: Holds) -> Column {
    Column { name, holds }
}

/// The columns in the order of the table, which is that of a row's values.
pub(crate) const COLUMNS: [Column; COLUMNS_COUNT] = [
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
];

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

/// Tables are made for events only.
pub(crate) fn events_only(run: &RunScope) -> Result<(), ExportError> {
    match run.model {
        ExportModel::Events => Ok(()),
        ExportModel::Persons => Err(ExportError::hopeless(
            "This destination takes events only: export persons to files.",
        )),
    }
}
