//! Statements of Redshift alone.

use crate::destination::postgres::server::Server;
use crate::destination::postgres::sql::{STAGE, quoted};
use crate::destination::postgres::table_schema::TableSchema;
use crate::destination::table::ColumnType;

/// Creates a temporary table of texts: functions are not allowed in a list of rows, so texts are
/// converted when they go into the table.
pub(super) fn create_stage(server: &Server) -> String {
    let columns = server
        .layout
        .joined(|column| format!("{} VARCHAR(65535)", quoted(column.name)));
    format!("CREATE TEMPORARY TABLE {STAGE} ({columns})")
}

/// INSERT of a number of rows.
pub(super) fn insert_stage(server: &Server, rows: usize) -> String {
    let mut sql = format!("INSERT INTO {STAGE} ({}) VALUES ", server.columns());
    let count = server.layout.columns.len();
    for row in 0..rows {
        let first = row * count;
        let values = (1..=count).map(|column| format!("${}", first + column));
        let separator = if row == 0 { "" } else { "," };
        sql += &format!("{separator}({})", values.collect::<Vec<_>>().join(","));
    }
    sql
}

/// Inserts all rows into the table, each key once, with its newest row.
pub(super) fn insert(server: &Server, table_schema: &TableSchema) -> String {
    let (target, names, key) = (server.target(), server.columns(), server.key());
    let values = server.layout.joined(|column| {
        let name = quoted(column.name);
        match column.column_type {
            ColumnType::Text => name,
            ColumnType::Json if table_schema.is_of_type(column.name, "character varying") => name,
            ColumnType::Json => format!("JSON_PARSE({name})"),
            ColumnType::Integer => format!("CAST({name} AS INTEGER)"),
            ColumnType::Long => format!("CAST({name} AS BIGINT)"),
            ColumnType::Time => format!("CAST({name} AS TIMESTAMP WITH TIME ZONE)"),
        }
    });
    let newest = quoted(server.layout.newest);
    format!(
        "INSERT INTO {target} ({names}) SELECT {values} FROM (SELECT {names}, ROW_NUMBER() OVER \
         (PARTITION BY {key} ORDER BY {newest} DESC) AS \"newest\" FROM {STAGE}) AS \
         ranked WHERE \"newest\" = 1"
    )
}

#[cfg(test)]
mod tests {
    use super::{create_stage, insert, insert_stage};
    use crate::destination::postgres::TimeLimits;
    use crate::destination::postgres::server::{Dialect, Server};
    use crate::destination::postgres::table_schema::TableSchema;
    use crate::destination::settings::Settings;
    use crate::destination::table::EVENTS;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn server(super_type: bool) -> Server {
        let config = json!({"host": "h", "database": "d", "schema": "A\"b", "table_name": "T"});
        let secret = |name: &str| (name.to_owned(), "secret".to_owned());
        let secrets = BTreeMap::from([secret("user"), secret("password")]);
        let settings = Settings::new(&config, &secrets);
        Server::of(
            &settings,
            Dialect::Redshift { super_type },
            &EVENTS,
            TimeLimits::default(),
        )
        .unwrap()
    }

    #[test]
    fn tables_have_texts_of_the_greatest_length_or_super() {
        let text = "\"uuid\" VARCHAR(65535), \"event\" VARCHAR(65535), \"properties\" ";
        let expected = format!("CREATE TABLE IF NOT EXISTS \"a\"\"b\".\"t\" ({text}SUPER, ");
        assert!(server(true).create_table().starts_with(&expected));
        let expected =
            format!("CREATE TABLE IF NOT EXISTS \"a\"\"b\".\"t\" ({text}VARCHAR(65535), ");
        assert!(server(false).create_table().starts_with(&expected));
        assert!(
            server(true)
                .create_table()
                .ends_with("\"timestamp\" TIMESTAMP WITH TIME ZONE)")
        );
        let stage = create_stage(&server(true));
        assert!(
            stage.starts_with("CREATE TEMPORARY TABLE millrace_stage (\"uuid\" VARCHAR(65535), ")
        );
    }

    #[test]
    fn rows_are_inserted_by_one_statement_with_parameters() {
        let sql = insert_stage(&server(true), 2);
        let values =
            "($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11),($12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22)";
        assert!(
            sql.ends_with(&format!("\"timestamp\") VALUES {values}")),
            "{sql}"
        );
    }

    #[test]
    fn json_for_super_columns_is_parsed() {
        let sql = insert(&server(true), &TableSchema::default());
        assert!(
            sql.contains("SELECT \"uuid\", \"event\", JSON_PARSE(\"properties\"), "),
            "{sql}"
        );
        assert!(sql.contains("CAST(\"team_id\" AS INTEGER)"), "{sql}");
        assert!(!sql.contains("ON CONFLICT"), "{sql}");
    }

    #[test]
    fn runs_are_recorded_without_functions_that_redshift_lacks() {
        let server = server(false);
        assert_eq!(
            server.insert_run(7),
            "INSERT INTO \"a\"\"b\".\"t_millrace_runs\" (\"run\", \"attempt\", \"rows\", \
             \"finished_at\") VALUES ($1, $2, 7, GETDATE())"
        );
    }
}
