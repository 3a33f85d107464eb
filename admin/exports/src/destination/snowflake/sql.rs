//! Snowflake's statements.

use crate::destination::table::{Holds, quoted_in};
use crate::destination::warehouse::engine::Texts;
use crate::destination::warehouse::sql::{Merge, joined, literal};

/// Where the table is.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) database: String,
    pub(super) schema: String,
    pub(super) table: String,
}

/// A name as it is, capitals and all.
fn quoted(name: &str) -> String {
    quoted_in('"', name)
}

/// What a column is called here.
fn name(column: &str) -> String {
    quoted(match column {
        "set" => "people_set",
        "set_once" => "people_set_once",
        other => other,
    })
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
            format!("{} {kind}", name(column.name))
        });
        let merge = Merge {
            events: &events,
            stage: &stage,
            name,
            before_set: "",
            before_qualify: "",
            further: None,
        };
        let find = format!(
            "SELECT 1 FROM {}.INFORMATION_SCHEMA.SCHEMATA WHERE SCHEMA_NAME = {}",
            quoted(&self.database),
            literal(&self.schema),
        );
        Texts::of(&merge, &columns, "TRANSIENT ", insert(&stage), find)
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
    let names = joined(|column| name(column.name));
    format!(
        "INSERT INTO {stage} ({names}) SELECT {values} \
         FROM TABLE(FLATTEN(INPUT => PARSE_JSON(?))) line"
    )
}
