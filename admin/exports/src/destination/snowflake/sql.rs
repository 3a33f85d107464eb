//! SQL dialect of Snowflake.

use crate::destination::table::{Column, ColumnType, quoted_in};
use crate::destination::warehouse::sql::literal;
use crate::destination::warehouse::table_ref::{Dialect, TableRef};

/// SQL dialect of Snowflake.
#[derive(Clone, Copy, Debug)]
pub(super) struct SnowflakeSql;

impl Dialect for SnowflakeSql {
    const STAGE_KIND: &str = "TRANSIENT ";
    const LINES: &str = "TABLE(FLATTEN(INPUT => PARSE_JSON(?))) line";

    /// Quotes a name, which keeps its capitals.
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

    fn kind(&self, column_type: ColumnType) -> &'static str {
        match column_type {
            ColumnType::Text => "VARCHAR",
            ColumnType::Json => "VARIANT",
            ColumnType::Integer | ColumnType::Long => "INTEGER",
            ColumnType::Time => "TIMESTAMP_TZ",
        }
    }

    fn value(&self, column: Column) -> String {
        let value = format!("line.value:{}", Self::quoted(column.name));
        match column.column_type {
            ColumnType::Text => format!("{value}::VARCHAR"),
            // JSON's null becomes SQL's NULL.
            ColumnType::Json => format!("STRIP_NULL_VALUE({value})"),
            ColumnType::Integer | ColumnType::Long => format!("{value}::INTEGER"),
            ColumnType::Time => format!("{value}::TIMESTAMP_TZ"),
        }
    }

    fn find(table_ref: &TableRef) -> String {
        format!(
            "SELECT 1 FROM {}.INFORMATION_SCHEMA.SCHEMATA WHERE SCHEMA_NAME = {}",
            Self::quoted(&table_ref.database),
            literal(&table_ref.schema),
        )
    }
}
