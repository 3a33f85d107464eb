//! Finds, creates and checks the table of an export.

use super::server::Server;
use super::sql;
use crate::error::ExportError;
use millrace_catalog::ExportModel;
use millrace_clickhouse::quoted_text;
use std::collections::HashMap;

/// Creates the table if it does not exist, and checks its columns.
pub(super) async fn ensure(server: &Server, model: ExportModel) -> Result<(), ExportError> {
    let create = server.statement(sql::create_table(server, model));
    server.run(&create).await?;
    check(server).await
}

/// Checks that the table, if it exists, has the columns of the export in types that tell any two
/// values apart.
pub(super) async fn check(server: &Server) -> Result<(), ExportError> {
    let sql = format!(
        "SELECT name, type FROM system.columns WHERE database = {} AND table = {} \
         FORMAT TabSeparatedRaw",
        quoted_text(&server.database),
        quoted_text(&server.table)
    );
    let answer = server.run(&server.statement(sql)).await?;
    let found = answer.lines().filter_map(|line| line.split_once('\t'));
    let found: HashMap<&str, &str> = found.collect();
    if found.is_empty() {
        return Ok(());
    }
    for column in server.layout.columns {
        let (name, wanted) = (column.name, sql::type_of(*column));
        match found.get(name) {
            Some(kind) if fits(wanted, kind) => {}
            Some(_) => {
                return Err(ExportError::permanent(format!(
                    "The column {name} of the table has another type than {wanted}."
                )));
            }
            None => {
                return Err(ExportError::permanent(format!(
                    "The table has no column {name} ({wanted})."
                )));
            }
        }
    }
    Ok(())
}

/// Returns true if a column of a type has the same text for a value as one of the wanted type.
fn fits(wanted: &str, kind: &str) -> bool {
    let mut kind = kind;
    for wrapper in ["LowCardinality(", "Nullable("] {
        let inner = kind.strip_prefix(wrapper);
        kind = inner
            .and_then(|inner| inner.strip_suffix(')'))
            .unwrap_or(kind);
    }
    match wanted {
        "UUID" => ["UUID", "String"].contains(&kind),
        "Int64" => ["Int64", "UInt64", "Int32"].contains(&kind),
        wanted => wanted == kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_fit_that_write_a_value_in_the_same_way() {
        let table = [
            ("String", "String", true),
            ("String", "LowCardinality(String)", true),
            ("String", "LowCardinality(Nullable(String))", true),
            ("String", "JSON", false),
            ("UUID", "String", true),
            ("Int64", "Int32", true),
            ("Int64", "Float64", false),
            ("DateTime64(6, 'UTC')", "DateTime64(6, 'UTC')", true),
            ("DateTime64(6, 'UTC')", "DateTime64(3, 'UTC')", false),
            ("DateTime64(6, 'UTC')", "DateTime", false),
        ];
        for (wanted, kind, expected) in table {
            assert_eq!(fits(wanted, kind), expected, "{wanted} {kind}");
        }
    }
}
