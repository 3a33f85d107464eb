//! Leases of work that one process at a time does, of all that share a catalog.
//!
//! A lease is measured by the database's clock, as those of several machines differ. The holder
//! extends it well before it lapses, and stops its work when it cannot; candidates poll for it.

use crate::catalog::Catalog;
use crate::database_clock::{clock, micros};
use crate::entities::leases;
use crate::error::CatalogError;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter};
use std::time::Duration;

/// Lease of the process that runs batch exports.
pub const EXPORTS_LEASE: &str = "batch_exports";
/// Lease of the process that applies updates of persons.
pub const PERSONS_LEASE: &str = "persons";
/// Lease of the process that deletes the remains of deleted projects and organizations.
pub const CLEANUP_LEASE: &str = "cleanup";
/// Lease of the process that makes property columns in ClickHouse.
pub const COLUMNS_LEASE: &str = "property_columns";
/// Lease of the process that counts events.
pub const STATS_LEASE: &str = "stats";

impl Catalog {
    /// Acquires a free lease, or extends one's own, for `time` from now. `false`: somebody else
    /// holds it.
    ///
    /// # Errors
    ///
    /// Any database error; then it is unknown whether the lease was acquired.
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

    /// Releases a lease, so that nobody has to wait until it lapses.
    ///
    /// # Errors
    ///
    /// Any database error; then the lease lapses.
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
