//! Starts of nodes: their number, and the last one. A data folder that knows another last start is
//! a copy, or was restored.

use sea_orm_migration::schema::{big_integer, text};
use sea_orm_migration::sea_query::Table;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0041_node_starts"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // One at a time: SQLite adds one column with a statement. Starts of before, and of
        // processes of older versions that run meanwhile, were not counted.
        for column in [
            big_integer("start_count").default(0).take(),
            text("start_id").default("").take(),
        ] {
            let mut table = Table::alter();
            table.table("ingest_nodes").add_column(column);
            manager.alter_table(table).await?;
        }
        Ok(())
    }
}
