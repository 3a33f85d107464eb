//! Transactions of a test's own, which hold what others wait for.

use super::TestDatabase;
use sea_orm::{ConnectionTrait, Database, DatabaseTransaction, TransactionTrait};

/// Begins a transaction that has run a statement and stays open.
///
/// # Panics
///
/// Any database error.
#[allow(clippy::unwrap_used, reason = "tests end here")]
pub async fn holding(database: &TestDatabase, sql: &str) -> DatabaseTransaction {
    let connection = Database::connect(database.url()).await.unwrap();
    let open = connection.begin().await.unwrap();
    open.execute_unprepared(sql).await.unwrap();
    open
}
