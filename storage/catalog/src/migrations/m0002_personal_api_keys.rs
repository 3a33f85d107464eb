//! Personal keys.

use sea_orm_migration::schema::{
    big_integer, big_integer_null, json_binary, json_binary_null, pk_uuid, text, text_uniq,
};
use sea_orm_migration::sea_query::{ForeignKey, ForeignKeyAction, Index, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0002_personal_api_keys"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::create();
        table
            .table("personal_api_keys")
            .col(pk_uuid("id"))
            .col(big_integer("user_id"))
            .col(text("label"))
            .col(text_uniq("key_hash"))
            .col(text("mask_value"))
            .col(json_binary("scopes"))
            .col(json_binary_null("scoped_organizations"))
            .col(big_integer_null("expires_at"))
            .col(big_integer_null("last_used_at"))
            .col(big_integer_null("last_rolled_at"))
            .col(big_integer_null("revoked_at"))
            .col(big_integer("created_at"))
            .foreign_key(
                ForeignKey::create()
                    .from("personal_api_keys", "user_id")
                    .to("users", "id")
                    .on_delete(ForeignKeyAction::Cascade),
            );
        manager.create_table(table).await?;
        let mut of_user = Index::create();
        of_user
            .name("personal_api_keys_of_user")
            .table("personal_api_keys")
            .col("user_id");
        manager.create_index(of_user).await
    }
}
