//! History of the schema. A migration that was released is never edited; the next one follows it.
//!
//! All pending migrations run in one transaction, in SQLite and PostgreSQL alike, while every
//! other process that starts waits; so a catalog is of the old version or of the new one, never
//! between.

mod m0001_organizations;
mod m0002_personal_api_keys;
mod m0003_catalog_versions;
mod m0004_idempotency_keys;
mod m0005_activity_log;
mod m0006_invites;
mod m0007_domains;
mod m0008_roles;
mod m0009_members_in_order;
mod m0010_plugins;
mod m0011_proxy_records;
mod m0012_historical_migrations;
mod m0013_batch_exports;
mod m0015_member_counts;
mod m0016_ingested_event;
mod m0017_activity_counts;
mod m0018_plugin_secret_keys;
mod m0019_latest_runs;
mod m0020_ingest_nodes;
mod m0021_export_engine;
mod m0022_persons;
mod m0025_historical_allowances;
mod m0026_forgotten_runs;
mod m0027_identified_ids;
mod m0031_backfill_messages;
mod m0034_identified_ids_index;
mod m0035_person_backlogs;
mod m0036_export_folders;
mod m0037_export_plans;
mod m0038_deletions;
mod m0039_proxy_claims;
mod m0040_email_forms;
mod m0041_node_starts;
mod m0042_deleted_exports;
mod m0043_person_bytes;
mod m0045_deleted_plugins;
mod m0046_bounded_rows;
mod m0047_withdrawn_plugins;
mod m0048_updates_watermark;
mod m0049_export_holds;
mod m0050_import_leases;

use crate::connect::begin_write;
use crate::error::CatalogError;
use crate::location::CatalogLocation;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr};
use sea_orm_migration::{MigrationTrait, MigratorTrait};

/// Number under which our processes exclude one another in PostgreSQL.
const MIGRATION_LOCK: i64 = i64::from_be_bytes(*b"millrace");

struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m0001_organizations::Migration),
            Box::new(m0002_personal_api_keys::Migration),
            Box::new(m0003_catalog_versions::Migration),
            Box::new(m0004_idempotency_keys::Migration),
            Box::new(m0005_activity_log::Migration),
            Box::new(m0006_invites::Migration),
            Box::new(m0007_domains::Migration),
            Box::new(m0008_roles::Migration),
            Box::new(m0009_members_in_order::Migration),
            Box::new(m0010_plugins::Migration),
            Box::new(m0011_proxy_records::Migration),
            Box::new(m0012_historical_migrations::Migration),
            Box::new(m0013_batch_exports::Migration),
            Box::new(m0015_member_counts::Migration),
            Box::new(m0016_ingested_event::Migration),
            Box::new(m0017_activity_counts::Migration),
            Box::new(m0018_plugin_secret_keys::Migration),
            Box::new(m0019_latest_runs::Migration),
            Box::new(m0020_ingest_nodes::Migration),
            Box::new(m0021_export_engine::Migration),
            Box::new(m0022_persons::Migration),
            Box::new(m0025_historical_allowances::Migration),
            Box::new(m0026_forgotten_runs::Migration),
            Box::new(m0027_identified_ids::Migration),
            Box::new(m0031_backfill_messages::Migration),
            Box::new(m0034_identified_ids_index::Migration),
            Box::new(m0035_person_backlogs::Migration),
            Box::new(m0036_export_folders::Migration),
            Box::new(m0037_export_plans::Migration),
            Box::new(m0038_deletions::Migration),
            Box::new(m0039_proxy_claims::Migration),
            Box::new(m0040_email_forms::Migration),
            Box::new(m0041_node_starts::Migration),
            Box::new(m0042_deleted_exports::Migration),
            Box::new(m0043_person_bytes::Migration),
            Box::new(m0045_deleted_plugins::Migration),
            Box::new(m0046_bounded_rows::Migration),
            Box::new(m0047_withdrawn_plugins::Migration),
            Box::new(m0048_updates_watermark::Migration),
            Box::new(m0049_export_holds::Migration),
            Box::new(m0050_import_leases::Migration),
        ]
    }
}

/// Returns true if any migration of ours was applied: in a foreign database none was.
///
/// # Errors
///
/// Any database error, or [`CatalogError::NewerSchema`] as in [`migrate`].
pub(crate) async fn is_made(
    db: &DatabaseConnection,
    location: &CatalogLocation,
) -> Result<bool, CatalogError> {
    let pending = Migrator::get_pending_migrations_read_only(db).await;
    let pending = pending.map_err(|error| location.error(&error))?;
    Ok(pending.len() < Migrator::migrations().len())
}

/// Number of migrations, for tests of upgrades.
#[cfg(feature = "testing")]
pub(crate) fn migrations_count() -> u32 {
    u32::try_from(Migrator::migrations().len()).unwrap_or(u32::MAX)
}

/// Applies pending migrations; `steps` stops early, for tests of upgrades.
///
/// # Errors
///
/// [`CatalogError::NewerSchema`] if the catalog was written by a newer version.
pub(crate) async fn migrate(
    db: &DatabaseConnection,
    location: &CatalogLocation,
    steps: Option<u32>,
) -> Result<(), CatalogError> {
    apply(db, steps)
        .await
        .map_err(|error| location.error(&error))
}

async fn apply(db: &DatabaseConnection, steps: Option<u32>) -> Result<(), DbErr> {
    // Checked before locking: an ordinary start writes nothing and waits for nobody.
    if Migrator::get_pending_migrations_read_only(db)
        .await?
        .is_empty()
    {
        return Ok(());
    }
    let transaction = begin_write(db).await?;
    if db.get_database_backend() == DbBackend::Postgres {
        let lock = format!("SELECT pg_advisory_xact_lock({MIGRATION_LOCK})");
        transaction.execute_unprepared(&lock).await?;
    }
    Migrator::up(&transaction, steps).await?;
    transaction.commit().await
}
