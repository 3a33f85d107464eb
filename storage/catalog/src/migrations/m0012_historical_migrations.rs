//! Imports of past events.

use sea_orm_migration::schema::{big_integer, big_integer_null, pk_uuid, text, text_null, uuid};
use sea_orm_migration::sea_query::{ForeignKey, ForeignKeyAction, Index, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0012_historical_migrations"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::create();
        table
            .table("historical_migrations")
            .col(pk_uuid("id"))
            .col(uuid("organization_id"))
            .col(big_integer("team_id"))
            .col(text("source"))
            .col(text("method"))
            .col(big_integer("total_events"))
            .col(big_integer("events_per_minute"))
            .col(text("state"))
            .col(big_integer("events_imported"))
            .col(big_integer("created_at"))
            .col(big_integer_null("decided_at"))
            .col(text_null("note"))
            .foreign_key(
                ForeignKey::create()
                    .from("historical_migrations", "organization_id")
                    .to("organizations", "id")
                    .on_delete(ForeignKeyAction::Cascade),
            )
            .foreign_key(
                ForeignKey::create()
                    .from("historical_migrations", "team_id")
                    .to("projects", "id")
                    .on_delete(ForeignKeyAction::Cascade),
            );
        manager.create_table(table).await?;
        let mut of_organization = Index::create();
        of_organization
            .name("historical_migrations_of_organization")
            .table("historical_migrations")
            .col("organization_id")
            .col("created_at")
            .col("id");
        manager.create_index(of_organization).await?;
        let mut of_team = Index::create();
        of_team
            .name("historical_migrations_of_team")
            .table("historical_migrations")
            .col("team_id")
            .col("state");
        manager.create_index(of_team).await
    }
}
