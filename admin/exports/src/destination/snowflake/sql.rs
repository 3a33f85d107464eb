//! Snowflake's statements.

use crate::destination::table::{Column, Holds, quoted_in};
use crate::destination::warehouse::place::{Dialect, Place};
use crate::destination::warehouse::sql::literal;

/// How Snowflake writes SQL.
#[derive(Clone, Copy, Debug)]
pub(super) struct SnowflakeSql;

impl Dialect for SnowflakeSql {
    const STAGE_KIND: &str = "TRANSIENT ";
    const LINES: &str = "TABLE(FLATTEN(INPUT => PARSE_JSON(?))) line";

    /// As it is, capitals and all.
    fn quoted(name: &str) -> String {
        quoted_in('"', name)
    }

    fn name(column: &str) -> String {
        Self::quoted(match column {
            "set" => "people_set",
            "set_once" => "people_set_once",
            other => other,
        })
    }

    fn kind(&self, holds: Holds) -> &'static str {
        match holds {
            Holds::Text => "VARCHAR",
            Holds::Json => "VARIANT",
            Holds::Integer | Holds::Long => "INTEGER",
            Holds::Time => "TIMESTAMP_TZ",
        }
    }

    fn value(&self, column: Column) -> String {
        let value = format!("line.value:{}", Self::quoted(column.name));
        match column.holds {
            Holds::Text => format!("{value}::VARCHAR"),
            // JSON's null is no value here.
            Holds::Json => format!("STRIP_NULL_VALUE({value})"),
            Holds::Integer | Holds::Long => format!("{value}::INTEGER"),
            Holds::Time => format!("{value}::TIMESTAMP_TZ"),
        }
    }

    fn find(place: &Place) -> String {
        format!(
            "SELECT 1 FROM {}.INFORMATION_SCHEMA.SCHEMATA WHERE SCHEMA_NAME = {}",
            Self::quoted(&place.database),
            literal(&place.schema),
        )
    }
}
