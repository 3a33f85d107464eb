//! Databricks' statements.

use crate::destination::table::{Holds, quoted_in};
use crate::destination::warehouse::engine::Texts;
use crate::destination::warehouse::sql::{Merge, joined, literal};

/// Where the table is.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) catalog: String,
    pub(super) schema: String,
    pub(super) table: String,
    /// Whether JSON goes into columns of the type VARIANT.
    pub(super) variant_type: bool,
}

fn quoted(name: &str) -> String {
    quoted_in('`', name)
}

impl Names {
    fn qualified(&self, table: &str) -> String {
        [self.catalog.as_str(), &self.schema, table]
            .map(quoted)
            .join(".")
    }

    pub(super) fn texts(&self, stage: &str) -> Texts {
        let (events, stage) = (self.qualified(&self.table), self.qualified(stage));
        let columns = joined(|column| {
            let kind = match column.holds {
                Holds::Json if self.variant_type => "VARIANT",
                Holds::Text | Holds::Json => "STRING",
                Holds::Integer => "BIGINT",
                Holds::Time => "TIMESTAMP",
            };
            format!("{} {kind}", quoted(column.name))
        });
        let merge = Merge {
            events: &events,
            stage: &stage,
            name: quoted,
            before_set: "kept.",
            before_qualify: "",
            further: None,
        };
        let find = format!(
            "SELECT 1 FROM {}.information_schema.schemata WHERE schema_name = {}",
            quoted(&self.catalog),
            literal(&self.schema.to_lowercase()),
        );
        Texts::of(&merge, &columns, "", self.insert(&stage), find)
    }

    fn insert(&self, stage: &str) -> String {
        let values = joined(|column| {
            let value = format!("get_json_object(line, '$.{}')", column.name);
            match column.holds {
                Holds::Json if self.variant_type => format!("parse_json({value})"),
                Holds::Text | Holds::Json => value,
                Holds::Integer => format!("CAST({value} AS BIGINT)"),
                Holds::Time => format!("CAST({value} AS TIMESTAMP)"),
            }
        });
        let names = joined(|column| quoted(column.name));
        format!(
            "INSERT INTO {stage} ({names}) SELECT {values} \
             FROM (SELECT explode(from_json(:rows, 'array<string>')) AS line)"
        )
    }
}
