//! Reasons why backfills have no runs, or were given up.

use super::columns::text_null;
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::Table;

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0031_backfill_messages"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut table = Table::alter();
        table
            .table("batch_export_backfills")
            .add_column(text_null("message"));
        schema.execute(&table).await
    }
}
