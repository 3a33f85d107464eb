//! Requests with rejected events that are sent again: the one of each project that is under way.

use super::columns::{big_integer, boolean, text, uuid};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKey, ForeignKeyAction, Table};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0055_rejected_event_resends"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut of_project = ForeignKey::create()
            .from("rejected_event_resends", "team_id")
            .to("projects", "id")
            .on_delete(ForeignKeyAction::Cascade)
            .take();
        let mut table = Table::create();
        table
            .table("rejected_event_resends")
            .col(big_integer("team_id").primary_key())
            .col(uuid("id"))
            .col(boolean("historical_migration"))
            .col(text("request"))
            .col(big_integer("created_at"))
            .foreign_key(&mut of_project);
        schema.execute(&table).await
    }
}
