//! Number of members of an organization. Counting a hundred thousand takes longer than a read may.

use sea_orm::ConnectionTrait;
use sea_orm_migration::schema::big_integer;
use sea_orm_migration::sea_query::Table;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0015_member_counts"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::alter();
        table
            .table("organizations")
            .add_column(big_integer("member_count").default(0));
        manager.alter_table(table).await?;
        let count = "UPDATE organizations SET member_count = (SELECT COUNT(*) FROM \
             organization_memberships WHERE organization_id = organizations.id)";
        let counted = manager.get_connection().execute_unprepared(count).await;
        counted.map(drop)
    }
}
