//! Newest runs of each export in a row of their own. There is nothing to copy: no runs were made
//! before.

use sea_orm_migration::schema::{json, pk_uuid};
use sea_orm_migration::sea_query::{ForeignKey, ForeignKeyAction, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0019_latest_runs"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::create();
        table
            .table("batch_export_latest_runs")
            .col(pk_uuid("batch_export_id"))
            .col(json("runs"))
            .foreign_key(
                ForeignKey::create()
                    .from("batch_export_latest_runs", "batch_export_id")
                    .to("batch_exports", "id")
                    .on_delete(ForeignKeyAction::Cascade),
            );
        manager.create_table(table).await
    }
}
