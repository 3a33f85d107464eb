//! Time until which no run of an export is claimed, as what a cancelled one delivered may still be
//! taken back.

use sea_orm_migration::schema::big_integer;
use sea_orm_migration::sea_query::Table;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0049_export_holds"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut exports = Table::alter();
        exports
            .table("batch_exports")
            .add_column(big_integer("busy_until").default(0));
        manager.alter_table(exports).await
    }
}
