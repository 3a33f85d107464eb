//! Indexes that carry long lists of members.

use sea_orm_migration::sea_query::Index;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0009_members_in_order"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut in_order = Index::create();
        in_order
            .name("organization_memberships_in_order")
            .table("organization_memberships")
            .col("organization_id")
            .col("joined_at")
            .col("id");
        manager.create_index(in_order).await?;
        // Owners are few, and are counted before one of them goes.
        let mut by_level = Index::create();
        by_level
            .name("organization_memberships_by_level")
            .table("organization_memberships")
            .col("organization_id")
            .col("level");
        manager.create_index(by_level).await
    }
}
