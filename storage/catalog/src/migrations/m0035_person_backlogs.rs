//! Positions of projects with a backlog, and counts of their new distinct ids.

use super::columns::{big_integer, big_integer_null, uuid};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::{ForeignKey, ForeignKeyAction, ForeignKeyCreateStatement, Table};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0035_person_backlogs"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut backlogs = Table::create();
        backlogs
            .table("person_backlogs")
            .col(big_integer("team_id").primary_key())
            .col(big_integer("created_at"))
            .col(uuid("request_id"))
            .col(big_integer("position"))
            .col(big_integer("version"))
            .col(big_integer_null("passed"))
            .foreign_key(&mut below_project("person_backlogs"));
        schema.execute(&backlogs).await?;
        let mut new_ids = Table::create();
        new_ids
            .table("person_new_ids")
            .col(big_integer("team_id").primary_key())
            .col(big_integer("hour"))
            .col(big_integer("made"))
            .col(big_integer("left_out"))
            .foreign_key(&mut below_project("person_new_ids"));
        schema.execute(&new_ids).await
    }
}

/// Foreign key to the project, which deletes its rows with it.
fn below_project(table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create()
        .name(format!("fk_{table}_team_id"))
        .from(table, "team_id")
        .to("projects", "id")
        .on_delete(ForeignKeyAction::Cascade)
        .take()
}
