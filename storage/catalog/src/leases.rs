//! Leases: what one process at a time does, of all that share a catalog.
//!
//! A lease is measured by the database's clock, as those of several machines differ. Whoever holds
//! one extends it well before it lapses, and stops what it does when it cannot; whoever wants one
//! asks again and again.

use crate::catalog::Catalog;
use crate::entities::leases;
use crate::error::CatalogError;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, QueryFilter};
use std::time::Duration;

/// The lease of whoever runs batch exports.
pub const EXPORTS_LEASE: &str = "batch_exports";
/// The lease of whoever applies what events say of persons.
pub const PERSONS_LEASE: &str = "persons";
/// Lease of the process that deletes what deleted projects and organizations left.
pub const CLEANUP_LEASE: &str = "cleanup";

impl Catalog {
    /// Takes a lease that nobody holds, or extends one's own, for so long from now. `false`:
    /// somebody else holds it.
    ///
    /// # Errors
    ///
    /// What the database says; then nobody knows.
    pub async fn hold_lease(
        &self,
        name: &str,
        holder: Uuid,
        time: Duration,
    ) -> Result<bool, CatalogError> {
        let held = async {
            let now = || clock(&self.writer);
            let free = leases::Column::Holder.eq(holder);
            let free = free.or(Expr::col(leases::Column::LapsesAt).lte(now()));
            let held = leases::Entity::update_many()
                .col_expr(leases::Column::Holder, Expr::value(holder))
                .col_expr(leases::Column::LapsesAt, now().add(micros(time)))
                .filter(leases::Column::Name.eq(name))
                .filter(free)
                .exec(&self.writer)
                .await?;
            Ok(held.rows_affected == 1)
        };
        held.await.map_err(|error: DbErr| self.error(&error))
    }

    /// Gives a lease back, so that nobody has to wait until it lapses.
    ///
    /// # Errors
    ///
    /// What the database says; then it lapses.
    pub async fn release_lease(&self, name: &str, holder: Uuid) -> Result<(), CatalogError> {
        let released = leases::Entity::update_many()
            .col_expr(leases::Column::LapsesAt, Expr::value(0_i64))
            .filter(leases::Column::Name.eq(name))
            .filter(leases::Column::Holder.eq(holder))
            .exec(&self.writer)
            .await;
        released.map(drop).map_err(|error| self.error(&error))
    }
}

/// A time as leases have it.
pub(crate) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Microseconds since 1970 by the database's clock, as a part of a statement.
pub(crate) fn clock<C: ConnectionTrait>(db: &C) -> Expr {
    // In brackets it is read once, and not for every row.
    Expr::cust(match db.get_database_backend() {
        DbBackend::Postgres => {
            "(SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT))"
        }
        _ => "(SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER))",
    })
}

/// The same, asked for.
pub(crate) async fn database_now<C: ConnectionTrait>(db: &C) -> Result<i64, DbErr> {
    let mut query = Query::select();
    query.expr_as(clock(db), "now");
    let row = db.query_one(&query).await?;
    let row = row.ok_or_else(|| DbErr::RecordNotFound("the database's clock".to_owned()))?;
    row.try_get("", "now")
}
