//! Database's clock, by which machines agree on times.

use sea_orm::sea_query::{Expr, Query};
use sea_orm::{ConnectionTrait, DbBackend, DbErr};
use std::time::Duration;

/// Duration in microseconds.
#[must_use]
pub fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// SQL expression for the database's clock, in microseconds since 1970.
pub fn clock<C: ConnectionTrait>(db: &C) -> Expr {
    // As a subquery, the clock is read once and not for every row.
    Expr::cust(match db.get_database_backend() {
        DbBackend::Postgres => {
            "(SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT))"
        }
        _ => "(SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER))",
    })
}

/// Reads the database's clock, in microseconds since 1970.
///
/// # Errors
///
/// Any database error.
pub async fn database_now<C: ConnectionTrait>(db: &C) -> Result<i64, DbErr> {
    let mut query = Query::select();
    query.expr_as(clock(db), "now");
    let row = db.query_one(&query).await?;
    let row = row.ok_or_else(|| DbErr::RecordNotFound("the database's clock".to_owned()))?;
    row.try_get("", "now")
}
