//! Transactions of a test's own, which hold what others wait for.

use super::{TestDatabase, connected};
use sea_orm::{ConnectionTrait, DatabaseTransaction, TransactionTrait};
use std::time::Duration;

/// Begins a transaction that has run a statement and stays open.
///
/// # Panics
///
/// Any database error.
#[allow(clippy::unwrap_used, reason = "tests end here")]
pub async fn holding(database: &TestDatabase, sql: &str) -> DatabaseTransaction {
    let connection = connected(database.url()).await.unwrap();
    let open = connection.begin().await.unwrap();
    open.execute_unprepared(sql).await.unwrap();
    open
}

/// Waits until a statement waits for a lock, in PostgreSQL.
///
/// # Panics
///
/// Any database error.
#[allow(clippy::unwrap_used, reason = "tests end here")]
pub async fn until_one_waits(database: &TestDatabase) {
    let waiting = "SELECT count(*)::text FROM pg_stat_activity \
         WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while database.first_column(waiting).await.unwrap() == ["0"] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
