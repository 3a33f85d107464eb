//! Counts of the bytes that a project's persons and groups grow by in an hour.

use sea_orm_migration::sea_query::{ColumnDef, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0043_person_bytes"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // SQLite takes one column a statement.
        for name in ["bytes", "bytes_left_out"] {
            let mut column = ColumnDef::new(name);
            column.big_integer().not_null().default(0);
            let mut table = Table::alter();
            table.table("person_new_ids").add_column(column);
            manager.alter_table(table).await?;
        }
        Ok(())
    }
}
