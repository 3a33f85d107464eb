//! Name, schema and MERGE of a table, and its rows as NDJSON for a load job.

use crate::destination::table::row::Cell;
use crate::destination::table::{Column, ColumnType, Layout};
use crate::destination::warehouse::sql::Merge;
use crate::error::ExportError;
use serde_json::{Value, json};

/// Column with the time of a row's arrival, by BigQuery's clock.
const INGESTED: &str = "bq_ingested_timestamp";

/// Table: project, dataset, name and layout.
#[derive(Clone, Debug)]
pub(super) struct TableRef {
    pub(super) project: String,
    pub(super) dataset: String,
    pub(super) table: String,
    /// True if JSON goes into columns of the type JSON.
    pub(super) json_type: bool,
    /// Layout of the table.
    pub(super) layout: &'static Layout,
}

/// Checks the characters of a name, as names become parts of paths.
fn checked(what: &str, name: &str) -> Result<String, ExportError> {
    let is_plain = |symbol: char| symbol.is_alphanumeric() || "-_:.".contains(symbol);
    if name.chars().all(is_plain) && !name.contains("..") {
        return Ok(name.to_owned());
    }
    let message =
        format!("The {what} may have only letters, digits and `-_:.`, and no two dots in a row.");
    Err(ExportError::permanent(message))
}

impl TableRef {
    pub(super) fn new(
        project: &str,
        dataset: &str,
        table: &str,
        json_type: bool,
        layout: &'static Layout,
    ) -> Result<Self, ExportError> {
        Ok(Self {
            project: checked("project_id", project)?,
            dataset: checked("dataset_id", dataset)?,
            table: checked("table_id", table)?,
            json_type,
            layout,
        })
    }

    /// `TableReference` of a table in this dataset, for the jobs API.
    pub(super) fn reference(&self, table: &str) -> Value {
        json!({"projectId": self.project, "datasetId": self.dataset, "tableId": table})
    }

    /// Schema of a table that we create.
    pub(super) fn schema(&self) -> Value {
        let field = |name: &str, kind: &str| json!({"name": name, "type": kind});
        let columns = self
            .layout
            .columns
            .iter()
            .map(|column| field(column.name, self.type_of(*column)));
        let ingested = std::iter::once(field(INGESTED, "TIMESTAMP"));
        json!({"fields": columns.chain(ingested).collect::<Vec<_>>()})
    }

    /// Returns true if a column has the type JSON; the column `elements` is always a text.
    fn is_json(&self, column: Column) -> bool {
        self.json_type && column.column_type == ColumnType::Json && column.name != "elements"
    }

    fn type_of(&self, column: Column) -> &'static str {
        match column.column_type {
            ColumnType::Json if self.is_json(column) => "JSON",
            ColumnType::Text | ColumnType::Json => "STRING",
            ColumnType::Integer | ColumnType::Long => "INT64",
            ColumnType::Time => "TIMESTAMP",
        }
    }

    /// Appends a row as a line: JSON is written as such only where the column has that type.
    pub(super) fn append(&self, cells: &[Cell<'_>], out: &mut Vec<u8>) {
        let mut separator = b'{';
        for (column, cell) in self.layout.columns.iter().zip(cells) {
            out.push(separator);
            separator = b',';
            let value = match cell {
                None => "null".to_owned(),
                Some(json) if self.is_json(*column) => json.clone().into_owned(),
                Some(number)
                    if matches!(column.column_type, ColumnType::Integer | ColumnType::Long) =>
                {
                    number.clone().into_owned()
                }
                Some(text) => Value::from(text.as_ref()).to_string(),
            };
            out.extend_from_slice(format!("\"{}\":{value}", column.name).as_bytes());
        }
        out.extend_from_slice(b"}\n");
    }

    /// MERGE statement that brings the rows of a staging table into the table, each key once.
    pub(super) fn merge(&self, stage: &str) -> String {
        let table = |table: &str| format!("`{}.{}.{table}`", self.project, self.dataset);
        let (target, stage) = (table(&self.table), table(stage));
        let merge = Merge {
            layout: self.layout,
            target: &target,
            stage: &stage,
            name: |name| format!("`{name}`"),
            before_set: "",
            before_qualify: "WHERE TRUE ",
            extra_column: Some((INGESTED, "CURRENT_TIMESTAMP()")),
        };
        merge.sql()
    }
}

#[cfg(test)]
mod tests {
    use super::TableRef;
    use crate::destination::table::EVENTS;

    #[test]
    fn json_is_a_text_unless_the_column_has_the_json_type() {
        let line = r#"{"uuid":"u","event":"e","properties":{"a": "b"},"elements":[1],"set":null,
            "set_once":null,"distinct_id":"d","team_id":7,"ip":null,"site_url":null,"timestamp":"t"}"#;
        for (json_type, properties) in [(true, r#"{"a": "b"}"#), (false, r#""{\"a\": \"b\"}""#)] {
            let table_ref = TableRef::new("p", "d", "t", json_type, &EVENTS).unwrap();
            let mut out = Vec::new();
            table_ref.append(&EVENTS.cells(line).unwrap(), &mut out);
            let expected = format!(
                r#"{{"uuid":"u","event":"e","properties":{properties},"elements":"[1]","set":null,"set_once":null,"distinct_id":"d","team_id":7,"ip":null,"site_url":null,"timestamp":"t"}}"#
            );
            assert_eq!(String::from_utf8(out).unwrap(), expected + "\n");
        }
    }

    #[test]
    fn names_that_would_change_the_path_are_refused() {
        for name in ["a/b", "a`b", "a?b", "..", "a b", "a%2f"] {
            assert!(
                TableRef::new(name, "d", "t", false, &EVENTS).is_err(),
                "{name}"
            );
            assert!(
                TableRef::new("p", "d", name, false, &EVENTS).is_err(),
                "{name}"
            );
        }
        assert!(TableRef::new("example.com:my-project", "d", "t_1", false, &EVENTS).is_ok());
    }
}
