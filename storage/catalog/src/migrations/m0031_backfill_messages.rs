//! Reasons why backfills have no runs, or were given up.

use sea_orm_migration::schema::text_null;
use sea_orm_migration::sea_query::Table;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0031_backfill_messages"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::alter();
        table
            .table("batch_export_backfills")
            .add_column(text_null("message"));
        manager.alter_table(table).await
    }
}
