//! Roles and their members.

use sea_orm_migration::schema::{
    big_integer, big_integer_null, pk_uuid, small_integer, text, uuid,
};
use sea_orm_migration::sea_query::{ForeignKey, ForeignKeyAction, Index, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0008_roles"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create_roles(manager).await?;
        create_memberships(manager).await
    }
}

async fn create_roles(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("roles")
        .col(pk_uuid("id"))
        .col(uuid("organization_id"))
        .col(text("name"))
        .col(text("name_key"))
        .col(small_integer("feature_flags_access_level"))
        .col(big_integer_null("created_by_id"))
        .col(big_integer("created_at"))
        .foreign_key(
            ForeignKey::create()
                .from("roles", "organization_id")
                .to("organizations", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .foreign_key(
            ForeignKey::create()
                .from("roles", "created_by_id")
                .to("users", "id")
                .on_delete(ForeignKeyAction::SetNull),
        );
    manager.create_table(table).await?;
    let mut once = Index::create();
    once.name("roles_once")
        .table("roles")
        .col("organization_id")
        .col("name_key")
        .unique();
    manager.create_index(once).await?;
    let mut of_maker = Index::create();
    of_maker
        .name("roles_of_maker")
        .table("roles")
        .col("created_by_id");
    manager.create_index(of_maker).await?;
    let mut in_order = Index::create();
    in_order
        .name("roles_in_order")
        .table("roles")
        .col("organization_id")
        .col("created_at")
        .col("id");
    manager.create_index(in_order).await
}

async fn create_memberships(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("role_memberships")
        .col(pk_uuid("id"))
        .col(uuid("role_id"))
        .col(uuid("membership_id"))
        .col(big_integer("joined_at"))
        .col(big_integer("updated_at"))
        .foreign_key(
            ForeignKey::create()
                .from("role_memberships", "role_id")
                .to("roles", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .foreign_key(
            ForeignKey::create()
                .from("role_memberships", "membership_id")
                .to("organization_memberships", "id")
                .on_delete(ForeignKeyAction::Cascade),
        );
    manager.create_table(table).await?;
    // The removal of a member searches by the first column.
    let mut once = Index::create();
    once.name("role_memberships_once")
        .table("role_memberships")
        .col("membership_id")
        .col("role_id")
        .unique();
    manager.create_index(once).await?;
    let mut in_order = Index::create();
    in_order
        .name("role_memberships_in_order")
        .table("role_memberships")
        .col("role_id")
        .col("joined_at")
        .col("id");
    manager.create_index(in_order).await
}
