//! Distinct ids remember which `$identify` gave them to their person, so that the earliest decides.

use sea_orm_migration::schema::{big_integer_null, uuid_null};
use sea_orm_migration::sea_query::Table;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0027_identified_ids"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // SQLite takes one column a statement.
        for column in [
            big_integer_null("identified_at"),
            uuid_null("identified_by"),
        ] {
            let mut table = Table::alter();
            table.table("person_distinct_ids").add_column(column);
            manager.alter_table(table).await?;
        }
        Ok(())
    }
}
