//! Counts of the bytes that a project's persons and groups grow by in an hour.

use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::{ColumnDef, Table};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0043_person_bytes"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        // SQLite takes one column a statement.
        for name in ["bytes", "bytes_left_out"] {
            let mut column = ColumnDef::new(name);
            column.big_integer().not_null().default(0);
            let mut table = Table::alter();
            table.table("person_new_ids").add_column(column);
            schema.execute(&table).await?;
        }
        Ok(())
    }
}
