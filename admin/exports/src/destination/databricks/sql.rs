//! SQL dialect of Databricks.

use crate::destination::table::{Column, ColumnType, quoted_in};
use crate::destination::warehouse::sql::literal;
use crate::destination::warehouse::table_ref::{Dialect, TableRef};

/// SQL dialect of Databricks.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatabricksSql {
    /// True if JSON goes into columns of the type VARIANT.
    pub(super) variant_type: bool,
}

impl Dialect for DatabricksSql {
    const BEFORE_SET: &str = "kept.";
    const LINES: &str = "(SELECT explode(from_json(:rows, 'array<string>')) AS line)";

    fn quoted(name: &str) -> String {
        quoted_in('`', name)
    }

    fn kind(&self, column_type: ColumnType) -> &'static str {
        match column_type {
            ColumnType::Json if self.variant_type => "VARIANT",
            ColumnType::Text | ColumnType::Json => "STRING",
            ColumnType::Integer | ColumnType::Long => "BIGINT",
            ColumnType::Time => "TIMESTAMP",
        }
    }

    fn value(&self, column: Column) -> String {
        let value = format!("get_json_object(line, '$.{}')", column.name);
        match column.column_type {
            ColumnType::Json if self.variant_type => format!("parse_json({value})"),
            ColumnType::Text | ColumnType::Json => value,
            ColumnType::Integer | ColumnType::Long => format!("CAST({value} AS BIGINT)"),
            ColumnType::Time => format!("CAST({value} AS TIMESTAMP)"),
        }
    }

    fn find(table_ref: &TableRef) -> String {
        format!(
            "SELECT 1 FROM {}.information_schema.schemata WHERE schema_name = {}",
            Self::quoted(&table_ref.database),
            literal(&table_ref.schema.to_lowercase()),
        )
    }
}
