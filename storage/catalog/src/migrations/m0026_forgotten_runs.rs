//! Indexes for retention: runs in the order in which they ended, and log lines in the order of
//! writing, of all exports, so that the old ones are found.

use sea_orm_migration::sea_query::Index;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0026_forgotten_runs"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, table, column) in [
            (
                "batch_export_runs_by_end",
                "batch_export_runs",
                "finished_at",
            ),
            (
                "batch_export_logs_by_time",
                "batch_export_logs",
                "logged_at",
            ),
        ] {
            let mut index = Index::create();
            index.name(name).table(table).col(column).col("id");
            manager.create_index(index).await?;
        }
        Ok(())
    }
}
