//! Statements that are alike in all warehouses.

use crate::destination::table::{COLUMNS, Column};

/// A text in a statement; backslashes begin escapes there.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Something of each column, with commas between.
pub(crate) fn joined(each: impl Fn(Column) -> String) -> String {
    COLUMNS.map(each).join(", ")
}

/// Brings the rows of a table beside that of events into that by `uuid`, each once.
pub(crate) struct Merge<'a> {
    /// The table of events.
    pub(crate) events: &'a str,
    /// The table beside it.
    pub(crate) stage: &'a str,
    /// What a column is called.
    pub(crate) name: fn(&str) -> String,
    /// What stands before a column that is set.
    pub(crate) before_set: &'static str,
    /// What QUALIFY cannot do without.
    pub(crate) before_qualify: &'static str,
    /// A further column, and what is put into it.
    pub(crate) further: Option<(&'static str, &'static str)>,
}

impl Merge<'_> {
    /// The statement.
    pub(crate) fn sql(&self) -> String {
        let Self {
            events,
            stage,
            name,
            before_set,
            before_qualify,
            further,
        } = self;
        let (uuid, timestamp) = (name("uuid"), name("timestamp"));
        let others = COLUMNS.iter().filter(|column| column.name != "uuid");
        let set = others.map(|column| format!("{before_set}{0} = come.{0}", name(column.name)));
        let further = further.map(|(column, value)| (name(column), value));
        let set = set.chain(
            further
                .iter()
                .map(|(column, value)| format!("{column} = {value}")),
        );
        let set = set.collect::<Vec<_>>().join(", ");
        let mut names = joined(|column| name(column.name));
        let mut values = joined(|column| format!("come.{}", name(column.name)));
        if let Some((column, value)) = &further {
            names += &format!(", {column}");
            values += &format!(", {value}");
        }
        format!(
            "MERGE INTO {events} AS kept USING (SELECT * FROM {stage} {before_qualify}QUALIFY \
             ROW_NUMBER() OVER (PARTITION BY {uuid} ORDER BY {timestamp} DESC) = 1) AS come \
             ON kept.{uuid} = come.{uuid} WHEN MATCHED THEN UPDATE SET {set} \
             WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
        )
    }
}
