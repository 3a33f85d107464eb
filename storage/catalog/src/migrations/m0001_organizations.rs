//! Organizations, their projects and their users.

use sea_orm_migration::schema::{
    big_integer, big_pk_auto, boolean, boolean_null, json_binary, pk_uuid, small_integer, text,
    text_null, text_uniq, uuid, uuid_uniq,
};
use sea_orm_migration::sea_query::{ColumnDef, ForeignKey, ForeignKeyAction, Index, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0001_organizations"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        organizations(manager).await?;
        users(manager).await?;
        memberships(manager).await?;
        projects(manager).await
    }
}

async fn organizations(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("organizations")
        .col(pk_uuid("id"))
        .col(text("name"))
        .col(text_uniq("slug"))
        .col(big_integer("created_at"))
        .col(big_integer("updated_at"))
        .col(boolean("is_member_join_email_enabled"))
        .col(boolean_null("enforce_2fa"))
        .col(boolean("members_can_write_pipelines"))
        .col(small_integer("plugins_access_level"))
        .col(text_null("customer_id"))
        .col(json_binary("disabled_features"));
    manager.create_table(table).await
}

async fn users(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("users")
        .col(big_pk_auto("id"))
        .col(uuid_uniq("uuid"))
        .col(text("distinct_id"))
        .col(text_uniq("email"))
        .col(text("first_name"))
        .col(text("last_name"))
        .col(boolean_null("is_email_verified"))
        .col(boolean("is_active"))
        .col(big_integer("created_at"))
        .col(big_integer("updated_at"));
    manager.create_table(table).await
}

async fn memberships(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("organization_memberships")
        .col(pk_uuid("id"))
        .col(uuid("organization_id"))
        .col(big_integer("user_id"))
        .col(small_integer("level"))
        .col(big_integer("joined_at"))
        .col(big_integer("updated_at"))
        .foreign_key(
            ForeignKey::create()
                .from("organization_memberships", "organization_id")
                .to("organizations", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .foreign_key(
            ForeignKey::create()
                .from("organization_memberships", "user_id")
                .to("users", "id")
                .on_delete(ForeignKeyAction::Cascade),
        );
    manager.create_table(table).await?;
    let mut once = Index::create();
    once.name("organization_memberships_once")
        .table("organization_memberships")
        .col("organization_id")
        .col("user_id")
        .unique();
    manager.create_index(once).await?;
    let mut of_user = Index::create();
    of_user
        .name("organization_memberships_of_user")
        .table("organization_memberships")
        .col("user_id");
    manager.create_index(of_user).await
}

async fn projects(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("projects")
        // Ids of projects are never used again: AUTOINCREMENT in SQLite, a sequence in PostgreSQL.
        .col(big_pk_auto("id"))
        .col(uuid_uniq("uuid"))
        .col(uuid("organization_id"))
        .col(text("name"))
        .col(ColumnDef::new("api_token").text().null().unique_key())
        .col(boolean("api_token_imported"))
        .col(boolean("anonymize_ips"))
        .col(text("timezone"))
        .col(big_integer("created_at"))
        .col(big_integer("updated_at"))
        .foreign_key(
            ForeignKey::create()
                .from("projects", "organization_id")
                .to("organizations", "id")
                .on_delete(ForeignKeyAction::Cascade),
        );
    manager.create_table(table).await?;
    let mut of_organization = Index::create();
    of_organization
        .name("projects_of_organization")
        .table("projects")
        .col("organization_id");
    manager.create_index(of_organization).await
}
