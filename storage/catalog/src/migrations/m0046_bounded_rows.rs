//! Counted bytes of stored responses, by which users and organizations are bounded.

use sea_orm_migration::schema::{big_integer, text};
use sea_orm_migration::sea_query::{Index, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0046_bounded_rows"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        response_bytes(manager).await
    }
}

async fn response_bytes(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut counts = Table::create();
    counts
        .table("idempotency_bytes")
        .col(text("holder"))
        .col(big_integer("hour"))
        .col(big_integer("bytes"))
        .primary_key(Index::create().col("holder").col("hour"));
    manager.create_table(counts).await
}
