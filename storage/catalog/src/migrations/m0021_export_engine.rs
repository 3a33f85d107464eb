//! State for running batch exports: leases, next windows, and claims of runs.

use sea_orm::ConnectionTrait;
use sea_orm::prelude::Uuid;
use sea_orm_migration::schema::{big_integer, big_integer_null, integer, text, uuid, uuid_null};
use sea_orm_migration::sea_query::{Index, Query, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

/// Index that the builder cannot express, as it has no conditions.
const ONCE: &str = "CREATE UNIQUE INDEX batch_export_runs_once \
    ON batch_export_runs (batch_export_id, data_interval_end) WHERE backfill_id IS NULL";

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0021_export_engine"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        leases(manager).await?;
        // SQLite takes one column a statement.
        for column in ["live_since", "windows_until", "next_window_end"] {
            let mut table = Table::alter();
            table
                .table("batch_exports")
                .add_column(big_integer_null(column));
            manager.alter_table(table).await?;
        }
        for column in [
            uuid_null("claim"),
            big_integer("claim_lapses_at").default(0).take(),
            big_integer("next_try_at").default(0).take(),
            integer("failures_count").default(0).take(),
            big_integer_null("bytes_exported"),
        ] {
            let mut table = Table::alter();
            table.table("batch_export_runs").add_column(column);
            manager.alter_table(table).await?;
        }
        indexes(manager).await
    }
}

async fn leases(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("leases")
        .col(text("name").primary_key())
        .col(uuid("holder"))
        .col(big_integer("lapses_at"));
    manager.create_table(table).await?;
    let mut exports = Query::insert();
    exports
        .into_table("leases")
        .columns(["name", "holder", "lapses_at"])
        .values_panic(["batch_exports".into(), Uuid::nil().into(), 0_i64.into()]);
    manager.execute(exports).await
}

async fn indexes(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut due = Index::create();
    due.name("batch_exports_due")
        .table("batch_exports")
        .col("paused")
        .col("next_window_end");
    manager.create_index(due).await?;
    // A window is one run by the clock, and one of each backfill, in whatever process.
    let mut once = Index::create();
    once.name("batch_export_runs_once_a_backfill")
        .table("batch_export_runs")
        .col("backfill_id")
        .col("data_interval_end")
        .unique();
    manager.create_index(once).await?;
    let connection = manager.get_connection();
    connection.execute_unprepared(ONCE).await.map(drop)
}
