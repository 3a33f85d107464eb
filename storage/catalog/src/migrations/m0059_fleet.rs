//! Reports of nodes about themselves, and the fingerprint of the key that secrets are encrypted
//! with, by which a process with another key is found out at its start.

use super::columns::{big_integer, small_integer, text};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKey, ForeignKeyAction, Table};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0059_fleet"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut of_node = ForeignKey::create()
            .from("node_reports", "name")
            .to("ingest_nodes", "name")
            .on_delete(ForeignKeyAction::Cascade)
            .take();
        let mut reports = Table::create();
        reports
            .table("node_reports")
            .col(text("name").primary_key())
            .col(text("address"))
            .col(text("version"))
            .col(big_integer("log_bytes"))
            .col(big_integer("heard_at"))
            .foreign_key(&mut of_node);
        schema.execute(&reports).await?;
        let mut fingerprints = Table::create();
        fingerprints
            .table("secret_key_fingerprints")
            .col(small_integer("id").primary_key())
            .col(text("fingerprint"));
        schema.execute(&fingerprints).await
    }
}
