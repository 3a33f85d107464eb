//! Redshift's own statements.

use crate::destination::postgres::server::Server;
use crate::destination::postgres::shape::Shape;
use crate::destination::postgres::sql::{STAGE, quoted};
use crate::destination::table::Holds;

/// A temporary table of texts: functions in a list of rows are not allowed, so values are made of
/// them when they go into the table.
pub(super) fn create_stage(server: &Server) -> String {
    let columns = server
        .layout
        .joined(|column| format!("{} VARCHAR(65535)", quoted(column.name)));
    format!("CREATE TEMPORARY TABLE {STAGE} ({columns})")
}

/// An INSERT of so many rows.
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

/// Puts all rows into the table, each key once, the newest of it.
pub(super) fn insert(server: &Server, shape: &Shape) -> String {
    let (target, names, key) = (server.target(), server.columns(), server.key());
    let values = server.layout.joined(|column| {
        let name = quoted(column.name);
        match column.holds {
            Holds::Text => name,
            Holds::Json if shape.is_of_type(column.name, "character varying") => name,
            Holds::Json => format!("JSON_PARSE({name})"),
            Holds::Integer => format!("CAST({name} AS INTEGER)"),
            Holds::Long => format!("CAST({name} AS BIGINT)"),
            Holds::Time => format!("CAST({name} AS TIMESTAMP WITH TIME ZONE)"),
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
    use crate::destination::postgres::shape::Shape;
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
    fn rows_are_put_in_by_one_statement_with_values_beside() {
        let sql = insert_stage(&server(true), 2);
        let values =
            "($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11),($12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22)";
        assert!(
            sql.ends_with(&format!("\"timestamp\") VALUES {values}")),
            "{sql}"
        );
    }

    #[test]
    fn what_is_super_is_parsed() {
        let sql = insert(&server(true), &Shape::default());
        assert!(
            sql.contains("SELECT \"uuid\", \"event\", JSON_PARSE(\"properties\"), "),
            "{sql}"
        );
        assert!(sql.contains("CAST(\"team_id\" AS INTEGER)"), "{sql}");
        assert!(!sql.contains("ON CONFLICT"), "{sql}");
    }

    #[test]
    fn what_runs_did_is_kept_without_functions_that_redshift_lacks() {
        let server = server(false);
        assert_eq!(
            server.insert_run(7),
            "INSERT INTO \"a\"\"b\".\"t_millrace_runs\" (\"run\", \"attempt\", \"rows\", \
             \"finished_at\") VALUES ($1, $2, 7, GETDATE())"
        );
    }
}
