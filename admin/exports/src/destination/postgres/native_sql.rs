//! Statements of PostgreSQL alone.

use super::server::Server;
use super::sql::{STAGE, quoted};
use super::table_schema::TableSchema;

/// Creates a temporary table with the column types of the table.
pub(super) fn create_stage(server: &Server) -> String {
    let (target, columns) = (server.target(), server.columns());
    format!("CREATE TEMPORARY TABLE {STAGE} AS SELECT {columns} FROM {target} WITH NO DATA")
}

pub(super) fn copy(server: &Server) -> String {
    format!("COPY pg_temp.{STAGE} ({}) FROM STDIN", server.columns())
}

/// Inserts rows, each key once, with its last row. With a unique index stored rows that differ
/// are updated.
pub(super) fn insert(server: &Server, table_schema: &TableSchema) -> String {
    let (target, names, key) = (server.target(), server.columns(), server.key());
    let insert = format!(
        "INSERT INTO {target} AS kept ({names}) SELECT DISTINCT ON ({key}) {names} \
         FROM pg_temp.{STAGE} ORDER BY {key}, ctid DESC"
    );
    if !table_schema.has_unique_key {
        return insert;
    }
    let layout = server.layout;
    let others = layout.columns.iter().filter(|it| !layout.is_key(**it));
    let set = others.map(|column| {
        let name = quoted(column.name);
        format!("{name} = EXCLUDED.{name}")
    });
    let set = set.collect::<Vec<_>>().join(", ");
    format!(
        "{insert} ON CONFLICT ({key}) DO UPDATE SET {set} \
         WHERE ({}) IS DISTINCT FROM ({})",
        comparable("kept", server, table_schema),
        comparable("EXCLUDED", server, table_schema),
    )
}

/// Columns of a row for a comparison; `json` has no equality.
fn comparable(of: &str, server: &Server, table_schema: &TableSchema) -> String {
    server.layout.joined(|column| {
        let text = if table_schema.is_of_type(column.name, "json") {
            "::text"
        } else {
            ""
        };
        format!("{of}.{}{text}", quoted(column.name))
    })
}
