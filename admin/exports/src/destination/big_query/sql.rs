//! Names, columns, the MERGE, and rows as lines that a load job takes.

use crate::destination::table::row::Cell;
use crate::destination::table::{Column, Holds, Layout};
use crate::destination::warehouse::sql::Merge;
use crate::error::ExportError;
use serde_json::{Value, json};

/// When a row came, by BigQuery's clock.
const INGESTED: &str = "bq_ingested_timestamp";

/// Where the table is.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) project: String,
    pub(super) dataset: String,
    pub(super) table: String,
    /// Whether JSON goes into columns of the type JSON.
    pub(super) json_type: bool,
    /// What the table is made of.
    pub(super) layout: &'static Layout,
}

/// What names are made of; they become parts of paths.
fn checked(what: &str, name: &str) -> Result<String, ExportError> {
    let is_plain = |symbol: char| symbol.is_alphanumeric() || "-_:.".contains(symbol);
    if name.chars().all(is_plain) && !name.contains("..") {
        return Ok(name.to_owned());
    }
    let message = format!("The {what} has letters, digits, dashes and dots only.");
    Err(ExportError::hopeless(message))
}

impl Names {
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

    /// A table as jobs name it.
    pub(super) fn reference(&self, table: &str) -> Value {
        json!({"projectId": self.project, "datasetId": self.dataset, "tableId": table})
    }

    /// The columns that a table of ours is made with.
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

    /// Elements are a text always.
    fn is_json(&self, column: Column) -> bool {
        self.json_type && column.holds == Holds::Json && column.name != "elements"
    }

    fn type_of(&self, column: Column) -> &'static str {
        match column.holds {
            Holds::Json if self.is_json(column) => "JSON",
            Holds::Text | Holds::Json => "STRING",
            Holds::Integer | Holds::Long => "INT64",
            Holds::Time => "TIMESTAMP",
        }
    }

    /// Appends a row as a line: JSON goes as such only where the column has that type.
    pub(super) fn append(&self, cells: &[Cell<'_>], out: &mut Vec<u8>) {
        let mut separator = b'{';
        for (column, cell) in self.layout.columns.iter().zip(cells) {
            out.push(separator);
            separator = b',';
            let value = match cell {
                None => "null".to_owned(),
                Some(json) if self.is_json(*column) => json.clone().into_owned(),
                Some(number) if matches!(column.holds, Holds::Integer | Holds::Long) => {
                    number.clone().into_owned()
                }
                Some(text) => Value::from(text.as_ref()).to_string(),
            };
            out.extend_from_slice(format!("\"{}\":{value}", column.name).as_bytes());
        }
        out.extend_from_slice(b"}\n");
    }

    /// Brings the rows of another table into this one, each key once.
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
            further: Some((INGESTED, "CURRENT_TIMESTAMP()")),
        };
        merge.sql()
    }
}

#[cfg(test)]
mod tests {
    use super::Names;
    use crate::destination::table::EVENTS;

    #[test]
    fn json_is_a_text_unless_the_column_is_of_that_type() {
        let line = r#"{"uuid":"u","event":"e","properties":{"a": "b"},"elements":[1],"set":null,
            "set_once":null,"distinct_id":"d","team_id":7,"ip":null,"site_url":null,"timestamp":"t"}"#;
        for (json_type, properties) in [(true, r#"{"a": "b"}"#), (false, r#""{\"a\": \"b\"}""#)] {
            let names = Names::new("p", "d", "t", json_type, &EVENTS).unwrap();
            let mut out = Vec::new();
            names.append(&EVENTS.cells(line).unwrap(), &mut out);
            let expected = format!(
                r#"{{"uuid":"u","event":"e","properties":{properties},"elements":"[1]","set":null,"set_once":null,"distinct_id":"d","team_id":7,"ip":null,"site_url":null,"timestamp":"t"}}"#
            );
            assert_eq!(String::from_utf8(out).unwrap(), expected + "\n");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["a/b", "a`b", "a?b", "..", "a b", "a%2f"] {
            assert!(
                Names::new(name, "d", "t", false, &EVENTS).is_err(),
                "{name}"
            );
            assert!(
                Names::new("p", "d", name, false, &EVENTS).is_err(),
                "{name}"
            );
        }
        assert!(Names::new("example.com:my-project", "d", "t_1", false, &EVENTS).is_ok());
    }
}
