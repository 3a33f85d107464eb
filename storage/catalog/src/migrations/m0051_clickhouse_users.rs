//! Users of projects in ClickHouse: the hash of the password of each project that asked for one.

use super::columns::{big_integer, text};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKey, ForeignKeyAction, Table};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0051_clickhouse_users"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut of_project = ForeignKey::create()
            .from("clickhouse_users", "team_id")
            .to("projects", "id")
            .on_delete(ForeignKeyAction::Cascade)
            .take();
        let mut table = Table::create();
        table
            .table("clickhouse_users")
            .col(big_integer("team_id").primary_key())
            .col(text("password_sha256"))
            .col(text("token_sha256"))
            .col(big_integer("rotated_at"))
            .foreign_key(&mut of_project);
        schema.execute(&table).await
    }
}
