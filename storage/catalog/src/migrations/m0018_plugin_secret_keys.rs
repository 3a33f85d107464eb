//! Keys of values in a plugin's configuration that were secrets when they were set. They were not
//! recorded before: all older values may be secrets.

use sea_orm_migration::schema::json_binary_null;
use sea_orm_migration::sea_query::Table;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0018_plugin_secret_keys"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::alter();
        table
            .table("plugin_configs")
            .add_column(json_binary_null("secret_keys"));
        manager.alter_table(table).await
    }
}
