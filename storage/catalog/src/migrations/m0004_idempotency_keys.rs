//! Answers that are kept for requests that are sent again.

use sea_orm_migration::schema::{big_integer, small_integer_null, text, text_null};
use sea_orm_migration::sea_query::{ColumnDef, Index, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0004_idempotency_keys"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::create();
        table
            .table("idempotency_keys")
            .col(ColumnDef::new("id").text().not_null().primary_key())
            .col(text("request_hash"))
            .col(small_integer_null("status"))
            .col(text_null("body"))
            .col(big_integer("created_at"));
        manager.create_table(table).await?;
        let mut by_age = Index::create();
        by_age
            .name("idempotency_keys_by_age")
            .table("idempotency_keys")
            .col("created_at");
        manager.create_index(by_age).await
    }
}
