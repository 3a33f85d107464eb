//! Endpoints of nodes, where each serves its live stream to the API of other processes.

use super::columns::{big_integer, text};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKey, ForeignKeyAction, Table};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0054_node_endpoints"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut of_node = ForeignKey::create()
            .from("node_endpoints", "name")
            .to("ingest_nodes", "name")
            .on_delete(ForeignKeyAction::Cascade)
            .take();
        let mut table = Table::create();
        table
            .table("node_endpoints")
            .col(text("name").primary_key())
            .col(text("url"))
            .col(text("token"))
            .col(big_integer("advertised_at"))
            .foreign_key(&mut of_node);
        schema.execute(&table).await
    }
}
