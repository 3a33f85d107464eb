//! Databricks' statements.

use crate::destination::table::{Column, Holds, quoted_in};
use crate::destination::warehouse::place::{Dialect, Place};
use crate::destination::warehouse::sql::literal;

/// How Databricks writes SQL.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatabricksSql {
    /// Whether JSON goes into columns of the type VARIANT.
    pub(super) variant_type: bool,
}

impl Dialect for DatabricksSql {
    const BEFORE_SET: &str = "kept.";
    const LINES: &str = "(SELECT explode(from_json(:rows, 'array<string>')) AS line)";

    fn quoted(name: &str) -> String {
        quoted_in('`', name)
    }

    fn kind(&self, holds: Holds) -> &'static str {
        match holds {
            Holds::Json if self.variant_type => "VARIANT",
            Holds::Text | Holds::Json => "STRING",
            Holds::Integer | Holds::Long => "BIGINT",
            Holds::Time => "TIMESTAMP",
        }
    }

    fn value(&self, column: Column) -> String {
        let value = format!("get_json_object(line, '$.{}')", column.name);
        match column.holds {
            Holds::Json if self.variant_type => format!("parse_json({value})"),
            Holds::Text | Holds::Json => value,
            Holds::Integer | Holds::Long => format!("CAST({value} AS BIGINT)"),
            Holds::Time => format!("CAST({value} AS TIMESTAMP)"),
        }
    }

    fn find(place: &Place) -> String {
        format!(
            "SELECT 1 FROM {}.information_schema.schemata WHERE schema_name = {}",
            Self::quoted(&place.database),
            literal(&place.schema.to_lowercase()),
        )
    }
}
