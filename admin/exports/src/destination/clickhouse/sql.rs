//! Statements as text.

use super::server::Server;
use crate::destination::table::{Column, ColumnType};
use millrace_catalog::ExportModel;
use millrace_clickhouse::{quoted_name, quoted_text};

/// Type of a column in the tables that we create.
pub(super) fn type_of(column: Column) -> &'static str {
    match (column.name, column.column_type) {
        ("uuid" | "person_id", _) => "UUID",
        (_, ColumnType::Text | ColumnType::Json) => "String",
        (_, ColumnType::Integer | ColumnType::Long) => "Int64",
        (_, ColumnType::Time) => "DateTime64(6, 'UTC')",
    }
}

fn columns(server: &Server) -> String {
    let typed = |column: Column| format!("{} {}", quoted_name(column.name), type_of(column));
    server.layout.joined(typed)
}

fn names(server: &Server) -> String {
    server.layout.joined(|column| quoted_name(column.name))
}

/// Creates the table. Of rows with one key a merge keeps the one that was inserted last.
pub(super) fn create_table(server: &Server, model: ExportModel) -> String {
    let order = match model {
        ExportModel::Events => {
            "PARTITION BY toYYYYMM(timestamp) ORDER BY (team_id, toDate(timestamp), event, uuid)"
        }
        ExportModel::Persons => "ORDER BY (team_id, distinct_id)",
    };
    format!(
        "CREATE TABLE IF NOT EXISTS {} ({}) ENGINE = ReplacingMergeTree {order}",
        server.named(&server.table),
        columns(server),
    )
}

/// Creates a staging table, which remembers the tokens of its inserts.
pub(super) fn create_stage(server: &Server, stage: &str) -> String {
    format!(
        "CREATE TABLE {} ({}) ENGINE = MergeTree ORDER BY tuple() \
         SETTINGS non_replicated_deduplication_window = 100000",
        server.named(stage),
        columns(server),
    )
}

pub(super) fn drop_table(server: &Server, table: &str) -> String {
    format!("DROP TABLE IF EXISTS {} SYNC", server.named(table))
}

pub(super) fn insert(server: &Server, stage: &str) -> String {
    format!(
        "INSERT INTO {} ({}) FORMAT TabSeparated",
        server.named(stage),
        names(server)
    )
}

pub(super) fn count(server: &Server, table: &str) -> String {
    format!("SELECT count() FROM {}", server.named(table))
}

/// Lists the staging tables of a window's tries.
pub(super) fn stages(server: &Server, prefix: &str) -> String {
    format!(
        "SELECT name FROM system.tables WHERE database = {} AND startsWith(name, {}) \
         FORMAT TabSeparatedRaw",
        quoted_text(&server.database),
        quoted_text(prefix)
    )
}

/// Counts the statements of a window's tries that run.
pub(super) fn running(prefix: &str) -> String {
    format!(
        "SELECT count() FROM system.processes WHERE startsWith(query_id, {})",
        quoted_text(prefix)
    )
}

/// Inserts the rows of a staging table that the table lacks.
pub(super) fn publish(server: &Server, stage: &str, model: ExportModel) -> String {
    let names = names(server);
    format!(
        "INSERT INTO {} ({names}) SELECT {names} FROM ({})",
        server.named(&server.table),
        missing(server, stage, model)
    )
}

/// Counts the rows of a staging table that the table lacks.
pub(super) fn count_missing(server: &Server, stage: &str, model: ExportModel) -> String {
    format!("SELECT count() FROM ({})", missing(server, stage, model))
}

/// Selects the rows of a staging table that the table lacks, of each key the newest.
fn missing(server: &Server, stage: &str, model: ExportModel) -> String {
    let (stage, table) = (server.named(stage), server.named(&server.table));
    match model {
        ExportModel::Events => missing_events(server, &stage, &table),
        ExportModel::Persons => missing_persons(server, &stage, &table),
    }
}

/// Events that the table does not have as they are: an event that was sent again with other values
/// is inserted, too.
fn missing_events(server: &Server, stage: &str, table: &str) -> String {
    let names = names(server);
    // Text of each value, since the customer's table may have other types for it.
    let text = |column: Column| format!("ifNull(toString({}), '')", quoted_name(column.name));
    let row = format!("toString(uuid), cityHash64({})", server.layout.joined(text));
    let day = "team_id, toDate(timestamp)";
    format!(
        "SELECT {names} FROM (SELECT {names} FROM {stage} ORDER BY timestamp DESC \
         LIMIT 1 BY {day}, event, uuid) \
         WHERE ({row}) NOT IN (SELECT {row} FROM {table} \
         WHERE ({day}) IN (SELECT {day} FROM {stage}) \
         AND toString(uuid) IN (SELECT toString(uuid) FROM {stage}))"
    )
}

/// Persons of distinct ids of which the table has no version, or an earlier one.
fn missing_persons(server: &Server, stage: &str, table: &str) -> String {
    let (names, key) = (names(server), "team_id, distinct_id");
    // Of the table's rows only keys and versions matter; the others may have other types.
    let of_table = server.layout.joined(|column| {
        let (name, kind) = (quoted_name(column.name), type_of(column));
        let is_compared =
            server.layout.is_key(column) || server.layout.versions.contains(&column.name);
        match (is_compared, kind) {
            (true, "Int64") => format!("toInt64({name}) AS {name}"),
            (true, _) => format!("toString({name}) AS {name}"),
            (false, _) => format!("defaultValueOfTypeName({}) AS {name}", quoted_text(kind)),
        }
    });
    format!(
        "SELECT {names} FROM (SELECT {names}, is_old FROM (\
         SELECT {names}, 0 AS is_old FROM {stage} UNION ALL \
         SELECT {of_table}, 1 AS is_old FROM {table} WHERE ({key}) IN (SELECT {key} FROM {stage})\
         ) ORDER BY person_distinct_id_version DESC, person_version DESC, is_old DESC \
         LIMIT 1 BY {key}) WHERE is_old = 0"
    )
}
