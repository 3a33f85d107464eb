//! The activity log.

use sea_orm_migration::schema::{
    big_integer, big_integer_null, json_binary, pk_uuid, text, text_null, uuid_null,
};
use sea_orm_migration::sea_query::{Index, IndexOrder, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0005_activity_log"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::create();
        // No foreign keys: entries outlive the objects that they are about.
        table
            .table("activity_log")
            .col(pk_uuid("id"))
            .col(uuid_null("organization_id"))
            .col(big_integer_null("user_id"))
            .col(uuid_null("key_id"))
            .col(text("actor_name"))
            .col(text_null("actor_email"))
            .col(text("activity"))
            .col(text("scope"))
            .col(text("item_id"))
            .col(json_binary("detail"))
            .col(big_integer("created_at"));
        manager.create_table(table).await?;
        let mut newest = Index::create();
        newest
            .name("activity_log_newest")
            .table("activity_log")
            .col("organization_id")
            .col(("created_at", IndexOrder::Desc))
            .col(("id", IndexOrder::Desc));
        manager.create_index(newest).await?;
        let mut of_item = Index::create();
        of_item
            .name("activity_log_of_item")
            .table("activity_log")
            .col("organization_id")
            .col("scope")
            .col("item_id")
            .col(("created_at", IndexOrder::Desc))
            .col(("id", IndexOrder::Desc));
        manager.create_index(of_item).await
    }
}
