//! Invites.

use sea_orm_migration::schema::{
    big_integer, big_integer_null, boolean, json_binary, pk_uuid, small_integer, text, text_null,
    text_uniq, uuid,
};
use sea_orm_migration::sea_query::{ForeignKey, ForeignKeyAction, Index, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0006_invites"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::create();
        table
            .table("organization_invites")
            .col(pk_uuid("id"))
            .col(uuid("organization_id"))
            .col(text("target_email"))
            .col(text("email_key"))
            .col(text("first_name"))
            .col(small_integer("level"))
            .col(text_null("message"))
            .col(json_binary("private_project_access"))
            .col(boolean("emailing_attempt_made"))
            .col(text_uniq("token_hash"))
            .col(big_integer("expires_at"))
            .col(big_integer_null("created_by_id"))
            .col(big_integer("created_at"))
            .col(big_integer("updated_at"))
            .foreign_key(
                ForeignKey::create()
                    .from("organization_invites", "organization_id")
                    .to("organizations", "id")
                    .on_delete(ForeignKeyAction::Cascade),
            )
            .foreign_key(
                ForeignKey::create()
                    .from("organization_invites", "created_by_id")
                    .to("users", "id")
                    .on_delete(ForeignKeyAction::SetNull),
            );
        manager.create_table(table).await?;
        let mut once = Index::create();
        once.name("organization_invites_once")
            .table("organization_invites")
            .col("organization_id")
            .col("email_key")
            .unique();
        manager.create_index(once).await?;
        let mut of_inviter = Index::create();
        of_inviter
            .name("organization_invites_of_inviter")
            .table("organization_invites")
            .col("created_by_id");
        manager.create_index(of_inviter).await?;
        let mut in_order = Index::create();
        in_order
            .name("organization_invites_in_order")
            .table("organization_invites")
            .col("organization_id")
            .col("created_at")
            .col("id");
        manager.create_index(in_order).await
    }
}
