//! Numbers of the last rows, in tables that the database numbers. The last row may be deleted, and
//! its number is not used again: ClickHouse may still have rows of that project.

use crate::catalog::Catalog;
use crate::error::CatalogError;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, Statement};

/// Tables whose `id` the database numbers.
const NUMBERED: [&str; 6] = [
    "users",
    "projects",
    "plugins",
    "plugin_configs",
    "batch_export_logs",
    "property_columns",
];

/// Has the other catalog go on with the numbers of this one.
pub(super) async fn copy(
    (from, read): (&Catalog, &DatabaseTransaction),
    (to, write): (&Catalog, &DatabaseTransaction),
) -> Result<(), CatalogError> {
    for table in NUMBERED {
        let last = last_id(read, table).await;
        if let Some(last) = last.map_err(|error| from.error(&error))? {
            let set = set_last_id(write, table, last).await;
            set.map_err(|error| to.error(&error))?;
        }
    }
    Ok(())
}

async fn last_id(db: &DatabaseTransaction, table: &str) -> Result<Option<i64>, DbErr> {
    let backend = db.get_database_backend();
    let sql = match backend {
        DbBackend::Postgres => {
            format!(
                "SELECT pg_sequence_last_value({}::regclass) AS last",
                sequence(table)
            )
        }
        _ => format!("SELECT seq AS last FROM sqlite_sequence WHERE name = '{table}'"),
    };
    let row = db
        .query_one_raw(Statement::from_string(backend, sql))
        .await?;
    row.map_or(Ok(None), |row| row.try_get("", "last"))
}

async fn set_last_id(db: &DatabaseTransaction, table: &str, last: i64) -> Result<(), DbErr> {
    let statements = match db.get_database_backend() {
        DbBackend::Postgres => vec![format!("SELECT setval({}, {last})", sequence(table))],
        _ => vec![
            format!("DELETE FROM sqlite_sequence WHERE name = '{table}'"),
            format!("INSERT INTO sqlite_sequence (name, seq) VALUES ('{table}', {last})"),
        ],
    };
    for statement in statements {
        db.execute_unprepared(&statement).await?;
    }
    Ok(())
}

/// Sequence of a table in PostgreSQL.
fn sequence(table: &str) -> String {
    format!("pg_get_serial_sequence('{table}', 'id')")
}
