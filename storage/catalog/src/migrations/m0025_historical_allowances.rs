//! Import quotas of projects, and the leases of each node.

use sea_orm_migration::schema::{big_integer, text, text_null, uuid};
use sea_orm_migration::sea_query::{
    ColumnDef, ForeignKey, ForeignKeyAction, ForeignKeyCreateStatement, Index, Table,
};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0025_historical_allowances"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        allowances(manager).await?;
        slices(manager).await?;
        let mut nodes = Table::create();
        nodes
            .table("historical_nodes")
            .col(ColumnDef::new("node").text().not_null().primary_key())
            .col(big_integer("segment"))
            .col(big_integer("offset"))
            .col(big_integer("seen_at"));
        manager.create_table(nodes).await
    }
}

async fn allowances(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("historical_allowances")
        .col(
            ColumnDef::new("team_id")
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(big_integer("events_unasked"))
        .col(big_integer("bucket_units"))
        .col(big_integer("bucket_per_minute"))
        .col(big_integer("bucket_at"))
        .col(text_null("wanted_by"))
        .col(big_integer("wanted_at"))
        .foreign_key(&mut of_project("historical_allowances"));
    manager.create_table(table).await
}

async fn slices(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("historical_slices")
        .col(text("node"))
        .col(big_integer("team_id"))
        .col(uuid("grant_id"))
        .col(big_integer("events_counted"))
        .col(big_integer("events_held"))
        .primary_key(Index::create().col("node").col("team_id").col("grant_id"))
        .foreign_key(&mut of_project("historical_slices"));
    manager.create_table(table).await?;
    let mut of_team = Index::create();
    of_team
        .name("historical_slices_of_team")
        .table("historical_slices")
        .col("team_id");
    manager.create_index(of_team).await
}

/// Foreign key to the project, which deletes the row with it.
fn of_project(table: &'static str) -> ForeignKeyCreateStatement {
    let mut key = ForeignKey::create();
    key.from(table, "team_id")
        .to("projects", "id")
        .on_delete(ForeignKeyAction::Cascade);
    key
}
