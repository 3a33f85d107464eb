//! Conditions that find rows by their keys, in SQL.

use millrace_rows::{Month, RowKey, Table};
use std::fmt::Write;

/// Rows with some keys, in SQL.
pub(crate) struct WantedRows {
    /// Columns of a key.
    pub(crate) key_columns: String,
    /// Condition for a WHERE.
    pub(crate) condition: String,
    /// True if the keys have an index.
    pub(crate) has_index: bool,
}

impl WantedRows {
    /// Rows with keys as plain literals, of which a server parses many at once; `None` without a
    /// key.
    pub(crate) fn of(table: Table, month: Month, keys: &[RowKey]) -> Option<Self> {
        let has_index = has_index(table, keys);
        let index_column = if has_index { ", `index`" } else { "" };
        let (id_column, at_column) = table.key_columns();
        let key_columns = format!("{id_column}, toUnixTimestamp64Micro({at_column}){index_column}");
        let mut wanted = String::with_capacity(keys.len() * 72);
        for key in keys {
            let comma = if wanted.is_empty() { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(wanted, "{comma}('{}',{}", key.id, key.received_at.0);
            if let Some(index) = key.index.filter(|_| has_index) {
                let _ = write!(wanted, ",{index}");
            }
            wanted.push(')');
        }
        let within = within(table, month, keys)?;
        Some(Self {
            condition: format!("{within} AND ({key_columns}) IN ({wanted})"),
            key_columns,
            has_index,
        })
    }
}

/// Returns true if rows are told apart by an index, as in parts of a block: rows of a request share
/// its id.
pub(crate) fn has_index(table: Table, keys: &[RowKey]) -> bool {
    table == Table::RejectedEvents && keys.iter().all(|key| key.index.is_some())
}

/// Condition for a WHERE that bounds the rows with keys; `None` without a key.
pub(crate) fn within(table: Table, month: Month, keys: &[RowKey]) -> Option<String> {
    let from = keys.iter().map(|key| key.received_at.0).min()?;
    let to = keys.iter().map(|key| key.received_at.0).max()?;
    let (_, at_column) = table.key_columns();
    let partition_column = match table {
        Table::Events => "timestamp",
        Table::RejectedEvents => "received_at",
        Table::PersonUpdates => "created_at",
    };
    Some(format!(
        "toYYYYMM({partition_column}) = {month} AND {at_column} BETWEEN {from} AND {to}",
        from = instant(from),
        to = instant(to),
    ))
}

/// A `DateTime64(6, 'UTC')` literal.
pub(crate) fn instant(micros: i64) -> String {
    format!("fromUnixTimestamp64Micro({micros}, 'UTC')")
}
