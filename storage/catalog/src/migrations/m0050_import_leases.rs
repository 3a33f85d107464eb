//! Import quotas as leased token buckets: events are taken out of an approval when they are leased,
//! and a lease expires.
//!
//! What nodes of earlier versions held is forfeited, as what a crash leaves: those that still run
//! find their tables gone, but use their leases for ten seconds more, and those that were killed
//! have counted nothing of what they imported last. A node that was stopped holds nothing.

use super::columns::{big_integer, uuid};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::sea_query::{ForeignKey, ForeignKeyAction, ForeignKeyCreateStatement, Index, Table};
use sea_orm::{ConnectionTrait, DbErr};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0050_import_leases"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut approvals = Table::alter();
        approvals
            .table("historical_migrations")
            .add_column(big_integer("events_leased").default(0));
        schema.execute(&approvals).await?;
        quotas(schema).await?;
        leases(schema).await?;
        let connection = schema.connection();
        for statement in [LEASED, HELD, QUOTAS] {
            connection.execute_unprepared(statement).await?;
        }
        for table in [
            "historical_slices",
            "historical_allowances",
            "historical_nodes",
        ] {
            let mut former = Table::drop();
            former.table(table);
            schema.execute(&former).await?;
        }
        Ok(())
    }
}

const LEASED: &str = "UPDATE historical_migrations SET events_leased = events_imported";
/// Forfeits what nodes hold; not of finished approvals, as those replace the default quota where
/// all of them was imported.
const HELD: &str = "UPDATE historical_migrations SET events_leased = events_leased \
     + COALESCE((SELECT CAST(SUM(events_held) AS BIGINT) FROM historical_slices \
     WHERE grant_id = historical_migrations.id), 0) WHERE state <> 'finished'";
/// Copies the default quotas; leases that are of no approval are of them.
const QUOTAS: &str = "INSERT INTO import_quotas (team_id, events_leased, events_imported, \
     bucket_units, bucket_per_minute, bucket_at) SELECT team_id, events_unasked \
     + COALESCE((SELECT CAST(SUM(events_held) AS BIGINT) FROM historical_slices \
     WHERE historical_slices.team_id = historical_allowances.team_id \
     AND grant_id NOT IN (SELECT id FROM historical_migrations)), 0), events_unasked, \
     bucket_units, bucket_per_minute, bucket_at FROM historical_allowances";

async fn quotas(schema: &Schema<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("import_quotas")
        .col(big_integer("team_id").primary_key())
        .col(big_integer("events_leased"))
        .col(big_integer("events_imported"))
        .col(big_integer("bucket_units"))
        .col(big_integer("bucket_per_minute"))
        .col(big_integer("bucket_at"))
        .foreign_key(&mut of_project("import_quotas"));
    schema.execute(&table).await
}

async fn leases(schema: &Schema<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("import_leases")
        .col(uuid("holder"))
        .col(big_integer("team_id"))
        .col(uuid("grant_id"))
        .col(big_integer("events_counted"))
        .col(big_integer("events_held"))
        .col(big_integer("expires_at"))
        .primary_key(Index::create().col("team_id").col("holder").col("grant_id"))
        .foreign_key(&mut of_project("import_leases"));
    schema.execute(&table).await
}

/// Foreign key to the project, which deletes the row with it.
fn of_project(table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create()
        .from(table, "team_id")
        .to("projects", "id")
        .on_delete(ForeignKeyAction::Cascade)
        .take()
}
