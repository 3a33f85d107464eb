//! Flag of projects that ever got an event. Existing projects get it with their next event.

use sea_orm_migration::schema::boolean;
use sea_orm_migration::sea_query::Table;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0016_ingested_event"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::alter();
        table
            .table("projects")
            .add_column(boolean("ingested_event").default(false));
        manager.alter_table(table).await
    }
}
