//! Schema of the catalog and its history. A migration that was released is never edited; the next
//! one follows it.
//!
//! An empty database gets the schema by `c0001_schema` at once. Catalogs of commit 4bbccd5 and
//! later get to the same schema by the steps that followed that commit, and `c0001_schema` is
//! recorded in place of their names: from then on there is one history. Older catalogs are refused.
//!
//! All pending migrations run in one transaction, in SQLite and PostgreSQL alike, while every
//! other process that starts waits; so a catalog is of the old version or of the new one, never
//! between.

mod c0001_schema;
mod columns;
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
mod m0051_clickhouse_users;
mod m0052_catalog_ids;
mod m0053_property_columns;
mod m0054_node_endpoints;
mod m0055_rejected_event_resends;
mod m0056_stats_lease;
mod m0057_sessions;
mod m0059_fleet;
mod runner;
mod steps;

use crate::connect::begin_write;
use crate::error::CatalogError;
use crate::location::CatalogLocation;
use runner::{Migrate, apply, recorded};
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr};
use steps::{SQUASHED, STEPS};
#[cfg(feature = "testing")]
pub(crate) use steps::{migrate_before, step_names};

/// Number under which our processes exclude one another in PostgreSQL.
const MIGRATION_LOCK: i64 = i64::from_be_bytes(*b"millrace");

/// Replaces the names of the steps by the migration that leads to the same schema.
const RECORD_SQUASH: &str = "\
    UPDATE seaql_migrations SET version = 'c0001_schema' WHERE version = 'm0050_import_leases'; \
    DELETE FROM seaql_migrations WHERE version <> 'c0001_schema'";

/// Migrations of a new catalog.
static MIGRATIONS: [&dyn Migrate; 9] = [
    &c0001_schema::Migration,
    &m0051_clickhouse_users::Migration,
    &m0052_catalog_ids::Migration,
    &m0053_property_columns::Migration,
    &m0054_node_endpoints::Migration,
    &m0055_rejected_event_resends::Migration,
    &m0056_stats_lease::Migration,
    &m0057_sessions::Migration,
    &m0059_fleet::Migration,
];

/// Version of a catalog's schema, as this program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaVersion {
    /// There are no tables of ours yet.
    None,
    /// The schema is of an earlier version, and the next start brings it up to date.
    Earlier,
    /// The schema is of this version.
    Current,
}

/// State of a catalog's schema.
enum SchemaState {
    /// Schema of this version.
    Current,
    /// [`MIGRATIONS`] are pending, in an empty database all.
    Pending,
    /// Steps are pending, before [`MIGRATIONS`].
    BeforeSquash,
}

/// Lists the migrations that were applied.
///
/// # Errors
///
/// Any database error, or [`CatalogError::NewerSchema`] if one is unknown here.
async fn applied<C: ConnectionTrait>(
    db: &C,
    location: &CatalogLocation,
) -> Result<Vec<String>, CatalogError> {
    let names = recorded(db).await.map_err(|error| location.error(&error))?;
    let unknown = names.iter().filter(|name| !is_known(name)).cloned();
    let unknown = unknown.collect::<Vec<_>>();
    if unknown.is_empty() {
        return Ok(names);
    }
    Err(CatalogError::NewerSchema {
        location: location.to_string(),
        detail: unknown.join(", "),
    })
}

/// Returns true for migrations that may be recorded in a catalog.
fn is_known(name: &str) -> bool {
    let mut ours = STEPS.iter().chain(&MIGRATIONS);
    SQUASHED.contains(&name) || ours.any(|own| own.name() == name)
}

/// Reads the state of a catalog's schema.
///
/// # Errors
///
/// Any database error, [`CatalogError::NewerSchema`], [`CatalogError::OlderSchema`].
async fn state<C: ConnectionTrait>(
    db: &C,
    location: &CatalogLocation,
) -> Result<SchemaState, CatalogError> {
    let names = applied(db, location).await?;
    let is_applied = |name: &str| names.iter().any(|applied| applied == name);
    if MIGRATIONS.iter().all(|own| is_applied(own.name())) {
        return Ok(SchemaState::Current);
    }
    if names.is_empty() || MIGRATIONS.iter().any(|own| is_applied(own.name())) {
        return Ok(SchemaState::Pending);
    }
    match SQUASHED.into_iter().find(|name| !is_applied(name)) {
        None => Ok(SchemaState::BeforeSquash),
        Some(missing) => Err(CatalogError::OlderSchema {
            location: location.to_string(),
            missing,
        }),
    }
}

/// Reads the version of a catalog's schema, and changes nothing.
///
/// # Errors
///
/// Any database error, [`CatalogError::NewerSchema`], [`CatalogError::OlderSchema`].
pub(crate) async fn schema_version(
    db: &DatabaseConnection,
    location: &CatalogLocation,
) -> Result<SchemaVersion, CatalogError> {
    if !is_made(db, location).await? {
        return Ok(SchemaVersion::None);
    }
    Ok(match state(db, location).await? {
        SchemaState::Current => SchemaVersion::Current,
        SchemaState::Pending | SchemaState::BeforeSquash => SchemaVersion::Earlier,
    })
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
    Ok(!applied(db, location).await?.is_empty())
}

/// Applies pending migrations.
///
/// # Errors
///
/// [`CatalogError::NewerSchema`] if the catalog was written by a newer version, and
/// [`CatalogError::OlderSchema`] if by one before commit 4bbccd5.
pub(crate) async fn migrate(
    db: &DatabaseConnection,
    location: &CatalogLocation,
) -> Result<(), CatalogError> {
    // Checked before locking: an ordinary start writes nothing and waits for nobody.
    if matches!(state(db, location).await?, SchemaState::Current) {
        return Ok(());
    }
    let failed = |error: DbErr| location.error(&error);
    let transaction = begin_locked(db).await.map_err(failed)?;
    // Another process may have been first.
    if matches!(
        state(&transaction, location).await?,
        SchemaState::BeforeSquash
    ) {
        apply(&transaction, &STEPS).await.map_err(failed)?;
        let recorded = transaction.execute_unprepared(RECORD_SQUASH).await;
        recorded.map_err(failed)?;
    }
    apply(&transaction, &MIGRATIONS).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)
}

/// Begins a transaction that no other process migrates beside.
async fn begin_locked(db: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    let transaction = begin_write(db).await?;
    if db.get_database_backend() == DbBackend::Postgres {
        let lock = format!("SELECT pg_advisory_xact_lock({MIGRATION_LOCK})");
        transaction.execute_unprepared(&lock).await?;
    }
    Ok(transaction)
}
