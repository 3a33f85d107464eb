//! Property columns that ClickHouse has.

use crate::nonce::Nonce;
use crate::settings::quoted_text;
use crate::{ClickHouse, QueryError};
use millrace_rows::{PropertyColumn, Table};
use serde::Deserialize;

/// Column that each table of events has, for comparison.
pub(super) const OF_EVERY_TABLE: &str = "uuid";

/// Property column of `events` as ClickHouse has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredColumn {
    /// Name of the column.
    pub(crate) name: String,
    /// Comment, which names all that its values depend on; empty if hosts differ.
    pub(crate) comment: String,
    /// True for `LowCardinality`.
    pub(crate) is_dictionary: bool,
    /// True if each table of events has the column, on each host.
    pub(crate) is_everywhere: bool,
}

/// Columns with their comments, types and numbers of tables, in the same order: one row, as an
/// answer without any would have no nonce.
#[derive(clickhouse::Row, Deserialize)]
struct Columns {
    nonce: String,
    names: Vec<String>,
    comments: Vec<String>,
    types: Vec<String>,
    tables: Vec<u64>,
}

impl StoredColumn {
    /// Returns true for a column of this name and definition.
    pub(super) fn is(&self, name: &str, comment: &str) -> bool {
        (self.name.as_str(), self.comment.as_str()) == (name, comment)
    }
}

impl ClickHouse {
    /// Lists the property columns of `events`, on any host, by their numbers.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub(crate) async fn stored_columns(&self) -> Result<Vec<StoredColumn>, QueryError> {
        let events = Table::Events.name();
        let tables = [events.to_owned(), self.local_name(events)];
        let tables: Vec<String> = tables.iter().map(|table| quoted_text(table)).collect();
        let sql = format!(
            "SELECT groupArray(name) AS names, groupArray(note) AS comments, \
             groupArray(kind) AS types, groupArray(hosts) AS tables FROM (\
             SELECT name, if(min(comment) = max(comment), min(comment), '') AS note, \
             min(type) AS kind, count() AS hosts FROM {columns} \
             WHERE database = {database} AND table IN ({tables}) \
             AND (name = '{OF_EVERY_TABLE}' OR startsWith(name, {start})) GROUP BY name)",
            columns = self.on_every_host("columns"),
            database = quoted_text(&self.settings.database),
            tables = tables.join(", "),
            start = quoted_text(PropertyColumn::NAME_START),
        );
        let nonce = Nonce::new();
        let answer = self.proving().query_raw(&nonce.put_into(&sql)).fetch_one();
        let found: Columns = self.within_deadline(answer).await?;
        nonce.check(&found.nonce)?;
        Ok(stored(found))
    }
}

fn stored(found: Columns) -> Vec<StoredColumn> {
    let all = found.names.iter().zip(&found.tables);
    let everywhere = all
        .filter(|(name, _)| *name == OF_EVERY_TABLE)
        .map(|(_, tables)| *tables)
        .max();
    let columns = found.names.into_iter().zip(found.comments);
    let columns = columns.zip(found.types).zip(found.tables);
    let mut columns: Vec<(i64, StoredColumn)> = columns
        .filter_map(|(((name, comment), kind), tables)| {
            let number = PropertyColumn::number_of(&name)?;
            let column = StoredColumn {
                name,
                comment,
                is_dictionary: kind.starts_with("LowCardinality"),
                is_everywhere: Some(tables) == everywhere,
            };
            Some((number, column))
        })
        .collect();
    columns.sort_unstable_by_key(|(number, _)| *number);
    columns.into_iter().map(|(_, column)| column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_some_table_lacks_is_not_everywhere() {
        let table = [
            ("property_10", "b", "LowCardinality(String)", 4),
            ("uuid", "", "UUID", 4),
            ("property_9", "a", "Nullable(Int64)", 3),
            ("property_x", "of somebody else", "String", 4),
        ];
        let texts = |of: fn(&(&str, &str, &str, u64)) -> String| table.iter().map(of).collect();
        let found = Columns {
            nonce: String::new(),
            names: texts(|row| row.0.to_owned()),
            comments: texts(|row| row.1.to_owned()),
            types: texts(|row| row.2.to_owned()),
            tables: table.iter().map(|row| row.3).collect(),
        };
        let column = |name: &str, comment: &str, is_dictionary, is_everywhere| StoredColumn {
            name: name.to_owned(),
            comment: comment.to_owned(),
            is_dictionary,
            is_everywhere,
        };
        let expected = [
            column("property_9", "a", false, false),
            column("property_10", "b", true, true),
        ];
        assert_eq!(stored(found), expected);
    }
}
