//! Databricks' statements.

use crate::destination::table::{COLUMNS, Column, Holds};
use crate::destination::warehouse::Texts;

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
    format!("`{}`", name.replace('`', "``"))
}

/// A text in a statement; backslashes begin escapes there.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn joined(each: impl Fn(Column) -> String) -> String {
    COLUMNS.map(each).join(", ")
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
        Texts {
            create: format!("CREATE TABLE IF NOT EXISTS {events} ({columns})"),
            stage: format!("CREATE OR REPLACE TABLE {stage} ({columns})"),
            insert: self.insert(&stage),
            // Rows of a request that was sent again are there twice.
            count: format!("SELECT COUNT(*) FROM {stage}"),
            merge: merge(&events, &stage),
            drop: format!("DROP TABLE IF EXISTS {stage}"),
            find: format!(
                "SELECT 1 FROM {}.information_schema.schemata WHERE schema_name = {}",
                quoted(&self.catalog),
                literal(&self.schema.to_lowercase()),
            ),
        }
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

fn merge(events: &str, stage: &str) -> String {
    let set = COLUMNS.iter().filter(|column| column.name != "uuid");
    let set = set.map(|column| format!("kept.{0} = come.{0}", quoted(column.name)));
    let set = set.collect::<Vec<_>>().join(", ");
    let names = joined(|column| quoted(column.name));
    let values = joined(|column| format!("come.{}", quoted(column.name)));
    format!(
        "MERGE INTO {events} AS kept USING (SELECT * FROM {stage} QUALIFY ROW_NUMBER() OVER \
         (PARTITION BY `uuid` ORDER BY `timestamp` DESC) = 1) AS come ON kept.`uuid` = come.`uuid` \
         WHEN MATCHED THEN UPDATE SET {set} WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
    )
}
