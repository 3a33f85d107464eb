//! Distinct ids remember which `$identify` gave them to their person, so that the earliest decides.

use super::columns::{big_integer_null, uuid_null};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::Table;

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0027_identified_ids"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        // SQLite takes one column a statement.
        for column in [
            big_integer_null("identified_at"),
            uuid_null("identified_by"),
        ] {
            let mut table = Table::alter();
            table.table("person_distinct_ids").add_column(column);
            schema.execute(&table).await?;
        }
        Ok(())
    }
}
