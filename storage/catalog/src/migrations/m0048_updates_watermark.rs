//! Watermark of person updates, which are shipped before events of older months are. Null until a
//! node publishes it: then its watermark holds for them, too.

use super::columns::big_integer_null;
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::Table;

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0048_updates_watermark"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut table = Table::alter();
        table
            .table("ingest_nodes")
            .add_column(big_integer_null("updates_watermark"));
        schema.execute(&table).await
    }
}
