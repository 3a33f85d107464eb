//! Steps of catalogs of commit 4bbccd5 to the schema of `c0001_schema`. No other step is added.

use super::runner::Migrate;
#[cfg(feature = "testing")]
use super::runner::apply;
use super::{
    m0027_identified_ids, m0031_backfill_messages, m0034_identified_ids_index,
    m0035_person_backlogs, m0036_export_folders, m0037_export_plans, m0038_deletions,
    m0039_proxy_claims, m0040_email_forms, m0041_node_starts, m0042_deleted_exports,
    m0043_person_bytes, m0045_deleted_plugins, m0046_bounded_rows, m0047_withdrawn_plugins,
    m0048_updates_watermark, m0049_export_holds, m0050_import_leases,
};
#[cfg(feature = "testing")]
use crate::connect::begin_write;
#[cfg(feature = "testing")]
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr};

/// Migrations of commit 4bbccd5, of which only the names are left.
pub(super) const SQUASHED: [&str; 23] = [
    "m0001_organizations",
    "m0002_personal_api_keys",
    "m0003_catalog_versions",
    "m0004_idempotency_keys",
    "m0005_activity_log",
    "m0006_invites",
    "m0007_domains",
    "m0008_roles",
    "m0009_members_in_order",
    "m0010_plugins",
    "m0011_proxy_records",
    "m0012_historical_migrations",
    "m0013_batch_exports",
    "m0015_member_counts",
    "m0016_ingested_event",
    "m0017_activity_counts",
    "m0018_plugin_secret_keys",
    "m0019_latest_runs",
    "m0020_ingest_nodes",
    "m0021_export_engine",
    "m0022_persons",
    "m0025_historical_allowances",
    "m0026_forgotten_runs",
];

/// Migrations that followed that commit, one by one.
pub(super) static STEPS: [&dyn Migrate; 18] = [
    &m0027_identified_ids::Migration,
    &m0031_backfill_messages::Migration,
    &m0034_identified_ids_index::Migration,
    &m0035_person_backlogs::Migration,
    &m0036_export_folders::Migration,
    &m0037_export_plans::Migration,
    &m0038_deletions::Migration,
    &m0039_proxy_claims::Migration,
    &m0040_email_forms::Migration,
    &m0041_node_starts::Migration,
    &m0042_deleted_exports::Migration,
    &m0043_person_bytes::Migration,
    &m0045_deleted_plugins::Migration,
    &m0046_bounded_rows::Migration,
    &m0047_withdrawn_plugins::Migration,
    &m0048_updates_watermark::Migration,
    &m0049_export_holds::Migration,
    &m0050_import_leases::Migration,
];

/// Lists the names of the steps, for tests of upgrades.
#[cfg(feature = "testing")]
pub(crate) fn step_names() -> Vec<String> {
    STEPS.iter().map(|step| step.name().to_owned()).collect()
}

/// Writes a catalog of commit 4bbccd5 into an empty database and applies the steps before one, for
/// tests of upgrades.
///
/// # Errors
///
/// Any database error, or there is no such step.
#[cfg(feature = "testing")]
pub(crate) async fn migrate_before(
    db: &DatabaseConnection,
    catalog: &str,
    step: &str,
) -> Result<(), DbErr> {
    let before = STEPS.iter().position(|it| it.name() == step);
    let before = before.and_then(|at| STEPS.get(..at));
    let before = before.ok_or_else(|| DbErr::Custom(format!("there is no step {step}")))?;
    let transaction = begin_write(db).await?;
    transaction.execute_unprepared(catalog).await?;
    apply(&transaction, before).await?;
    transaction.commit().await
}
