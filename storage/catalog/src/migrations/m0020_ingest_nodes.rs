//! Nodes that take events, and their watermarks.

use sea_orm_migration::schema::{big_integer, big_integer_null, text};
use sea_orm_migration::sea_query::{ColumnDef, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0020_ingest_nodes"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::create();
        table
            .table("ingest_nodes")
            .col(ColumnDef::new("name").text().not_null().primary_key())
            .col(text("host"))
            .col(text("state"))
            .col(big_integer_null("watermark"))
            .col(big_integer("published_at"))
            .col(big_integer("started_at"));
        manager.create_table(table).await
    }
}
