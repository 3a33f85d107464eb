//! Positions of projects with a backlog, and counts of their new distinct ids.

use sea_orm_migration::schema::{big_integer, big_integer_null, uuid};
use sea_orm_migration::sea_query::{
    ForeignKey, ForeignKeyAction, ForeignKeyCreateStatement, Table,
};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0035_person_backlogs"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
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
        manager.create_table(backlogs).await?;
        let mut new_ids = Table::create();
        new_ids
            .table("person_new_ids")
            .col(big_integer("team_id").primary_key())
            .col(big_integer("hour"))
            .col(big_integer("made"))
            .col(big_integer("left_out"))
            .foreign_key(&mut below_project("person_new_ids"));
        manager.create_table(new_ids).await
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
