//! Steps of catalogs of commit 4bbccd5 to the schema of `c0001_schema`. No other step is added.

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
use sea_orm::{ConnectionTrait, DatabaseConnection};
use sea_orm_migration::{
    DbErr, MigrationName, MigrationTrait, MigratorTrait, SchemaManager, async_trait,
};

/// Migrations of commit 4bbccd5.
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

/// Migration that must have been applied, as only its name is left.
struct Squashed(&'static str);

impl MigrationName for Squashed {
    fn name(&self) -> &'static str {
        self.0
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Squashed {
    async fn up(&self, _manager: &SchemaManager) -> Result<(), DbErr> {
        let name = self.0;
        Err(DbErr::Migration(format!("{name} is not in this version")))
    }
}

/// Migrations of commit 4bbccd5, and those that followed it one by one.
pub(super) struct Steps;

impl MigratorTrait for Steps {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        let mut migrations: Vec<Box<dyn MigrationTrait>> = Vec::new();
        for name in SQUASHED {
            migrations.push(Box::new(Squashed(name)));
        }
        migrations.extend(steps());
        migrations
    }
}

fn steps() -> [Box<dyn MigrationTrait>; 18] {
    [
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

/// Lists the names of the steps, for tests of upgrades.
#[cfg(feature = "testing")]
pub(crate) fn step_names() -> Vec<String> {
    let steps = steps();
    steps.iter().map(|step| step.name().to_owned()).collect()
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
    let before = step_names().iter().position(|name| name == step);
    let before = before.and_then(|steps| u32::try_from(steps).ok());
    let before = before.ok_or_else(|| DbErr::Custom(format!("there is no step {step}")))?;
    let transaction = begin_write(db).await?;
    transaction.execute_unprepared(catalog).await?;
    Steps::up(&transaction, Some(before)).await?;
    transaction.commit().await
}
