//! Connections of tests to a database, beside the catalog's own.

use crate::connect::end_maintenance;
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbErr};

/// Connects to a database.
///
/// # Errors
///
/// Any database error.
pub async fn connected(url: &str) -> Result<DatabaseConnection, DbErr> {
    let mut options = ConnectOptions::new(url);
    end_maintenance(&mut options);
    Database::connect(options).await
}

/// Executes statements at a database, on a connection of their own.
///
/// # Errors
///
/// Any database error.
pub async fn execute(url: &str, sql: &str) -> Result<(), DbErr> {
    let db = connected(url).await?;
    db.execute_unprepared(sql).await?;
    db.close().await
}
