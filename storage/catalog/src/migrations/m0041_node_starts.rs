//! Starts of nodes: their number, and the last one. A data folder that knows another last start is
//! a copy, or was restored.

use super::columns::{big_integer, text};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::Table;

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0041_node_starts"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        // One at a time: SQLite adds one column with a statement. Starts of before, and of
        // processes of older versions that run meanwhile, were not counted.
        for column in [
            big_integer("start_count").default(0).take(),
            text("start_id").default("").take(),
        ] {
            let mut table = Table::alter();
            table.table("ingest_nodes").add_column(column);
            schema.execute(&table).await?;
        }
        Ok(())
    }
}
