//! Watermark of person updates, which are shipped before events of older months are. Null until a
//! node publishes it: then its watermark holds for them, too.

use sea_orm_migration::schema::big_integer_null;
use sea_orm_migration::sea_query::Table;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0048_updates_watermark"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::alter();
        table
            .table("ingest_nodes")
            .add_column(big_integer_null("updates_watermark"));
        manager.alter_table(table).await
    }
}
