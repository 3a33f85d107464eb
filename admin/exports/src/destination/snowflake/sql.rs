//! Snowflake's statements.

use crate::destination::table::{COLUMNS, Column, Holds};
use crate::destination::warehouse::Texts;

/// Where the table is.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) database: String,
    pub(super) schema: String,
    pub(super) table: String,
}

/// A name as it is, capitals and all.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in a statement; backslashes begin escapes there.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// What a column is called here.
fn name(column: Column) -> String {
    quoted(match column.name {
        "set" => "people_set",
        "set_once" => "people_set_once",
        other => other,
    })
}

fn joined(each: impl Fn(Column) -> String) -> String {
    COLUMNS.map(each).join(", ")
}

impl Names {
    fn qualified(&self, table: &str) -> String {
        [self.database.as_str(), &self.schema, table]
            .map(quoted)
            .join(".")
    }

    pub(super) fn texts(&self, stage: &str) -> Texts {
        let (events, stage) = (self.qualified(&self.table), self.qualified(stage));
        let columns = joined(|column| {
            let kind = match column.holds {
                Holds::Text => "VARCHAR",
                Holds::Json => "VARIANT",
                Holds::Integer => "INTEGER",
                Holds::Time => "TIMESTAMP_TZ",
            };
            format!("{} {kind}", name(column))
        });
        Texts {
            create: format!("CREATE TABLE IF NOT EXISTS {events} ({columns})"),
            stage: format!("CREATE OR REPLACE TRANSIENT TABLE {stage} ({columns})"),
            insert: insert(&stage),
            count: format!("SELECT COUNT(*) FROM {stage}"),
            merge: merge(&events, &stage),
            drop: format!("DROP TABLE IF EXISTS {stage}"),
            find: format!(
                "SELECT 1 FROM {}.INFORMATION_SCHEMA.SCHEMATA WHERE SCHEMA_NAME = {}",
                quoted(&self.database),
                literal(&self.schema),
            ),
        }
    }
}

fn insert(stage: &str) -> String {
    let values = joined(|column| {
        let value = format!("line.value:{}", quoted(column.name));
        match column.holds {
            Holds::Text => format!("{value}::VARCHAR"),
            // JSON's null is no value here.
            Holds::Json => format!("STRIP_NULL_VALUE({value})"),
            Holds::Integer => format!("{value}::INTEGER"),
            Holds::Time => format!("{value}::TIMESTAMP_TZ"),
        }
    });
    let names = joined(name);
    format!(
        "INSERT INTO {stage} ({names}) SELECT {values} \
         FROM TABLE(FLATTEN(INPUT => PARSE_JSON(?))) line"
    )
}

fn merge(events: &str, stage: &str) -> String {
    let set = COLUMNS.iter().filter(|column| column.name != "uuid");
    let set = set.map(|column| format!("{0} = come.{0}", name(*column)));
    let set = set.collect::<Vec<_>>().join(", ");
    let (names, values) = (
        joined(name),
        joined(|column| format!("come.{}", name(column))),
    );
    format!(
        "MERGE INTO {events} AS kept USING (SELECT * FROM {stage} QUALIFY ROW_NUMBER() OVER \
         (PARTITION BY \"uuid\" ORDER BY \"timestamp\" DESC) = 1) AS come \
         ON kept.\"uuid\" = come.\"uuid\" WHEN MATCHED THEN UPDATE SET {set} \
         WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
    )
}
