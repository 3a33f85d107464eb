//! Runs in the order in which they ended, and lines in the order in which they were said, of all
//! exports: by these the old ones are found that are forgotten.

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
