//! Batch exports, their runs, their backfills and their log lines.

use sea_orm_migration::schema::{
    big_integer, big_integer_null, big_pk_auto, boolean, json_binary, json_binary_null, pk_uuid,
    text, text_null, uuid, uuid_null,
};
use sea_orm_migration::sea_query::{
    ForeignKey, ForeignKeyAction, ForeignKeyCreateStatement, Index, Table,
};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0013_batch_exports"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        exports(manager).await?;
        backfills(manager).await?;
        runs(manager).await?;
        logs(manager).await
    }
}

async fn exports(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("batch_exports")
        .col(pk_uuid("id"))
        .col(uuid("organization_id"))
        .col(big_integer("team_id"))
        .col(text("name"))
        .col(text("model"))
        .col(text("destination_type"))
        .col(json_binary("destination_config"))
        .col(json_binary("destination_secrets"))
        .col(text("interval"))
        .col(boolean("paused"))
        .col(big_integer_null("last_paused_at"))
        .col(big_integer_null("start_at"))
        .col(big_integer_null("end_at"))
        .col(text_null("hogql_query"))
        .col(json_binary_null("query_schema"))
        .col(big_integer("runs_count"))
        .col(big_integer("created_at"))
        .col(big_integer("last_updated_at"))
        .foreign_key(&mut below(
            "batch_exports",
            "organization_id",
            "organizations",
        ))
        .foreign_key(&mut below("batch_exports", "team_id", "projects"));
    manager.create_table(table).await?;
    for (name, owner) in [
        ("batch_exports_of_organization", "organization_id"),
        ("batch_exports_of_team", "team_id"),
    ] {
        let mut index = Index::create();
        index
            .name(name)
            .table("batch_exports")
            .col(owner)
            .col("created_at")
            .col("id");
        manager.create_index(index).await?;
    }
    Ok(())
}

async fn backfills(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("batch_export_backfills")
        .col(pk_uuid("id"))
        .col(uuid("batch_export_id"))
        .col(big_integer_null("start_at"))
        .col(big_integer_null("end_at"))
        .col(text("status"))
        .col(big_integer_null("total_runs"))
        .col(big_integer("finished_runs"))
        .col(big_integer("created_at"))
        .col(big_integer_null("finished_at"))
        .col(big_integer("last_updated_at"))
        .foreign_key(&mut below(
            "batch_export_backfills",
            "batch_export_id",
            "batch_exports",
        ));
    manager.create_table(table).await?;
    let mut in_order = Index::create();
    in_order
        .name("batch_export_backfills_in_order")
        .table("batch_export_backfills")
        .col("batch_export_id")
        .col("created_at")
        .col("id");
    manager.create_index(in_order).await
}

async fn runs(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("batch_export_runs")
        .col(pk_uuid("id"))
        .col(uuid("batch_export_id"))
        .col(big_integer("ordinal"))
        .col(uuid_null("backfill_id"))
        .col(text("status"))
        .col(big_integer_null("data_interval_start"))
        .col(big_integer("data_interval_end"))
        .col(big_integer_null("records_completed"))
        .col(big_integer_null("records_total_count"))
        .col(text_null("cursor"))
        .col(text_null("latest_error"))
        .col(big_integer("created_at"))
        .col(big_integer_null("finished_at"))
        .col(big_integer("last_updated_at"))
        .foreign_key(&mut below(
            "batch_export_runs",
            "batch_export_id",
            "batch_exports",
        ))
        .foreign_key(&mut below(
            "batch_export_runs",
            "backfill_id",
            "batch_export_backfills",
        ));
    manager.create_table(table).await?;
    let mut in_order = Index::create();
    in_order
        .name("batch_export_runs_in_order")
        .table("batch_export_runs")
        .col("batch_export_id")
        .col("ordinal")
        .unique();
    manager.create_index(in_order).await?;
    for (name, first, second) in [
        (
            "batch_export_runs_by_window",
            "batch_export_id",
            "data_interval_start",
        ),
        ("batch_export_runs_of_backfill", "backfill_id", "status"),
        ("batch_export_runs_by_status", "status", "created_at"),
    ] {
        let mut index = Index::create();
        index
            .name(name)
            .table("batch_export_runs")
            .col(first)
            .col(second);
        manager.create_index(index).await?;
    }
    Ok(())
}

async fn logs(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("batch_export_logs")
        .col(big_pk_auto("id"))
        .col(uuid("batch_export_id"))
        .col(uuid_null("run_id"))
        .col(big_integer("logged_at"))
        .col(text("level"))
        .col(text("message"))
        .foreign_key(&mut below(
            "batch_export_logs",
            "batch_export_id",
            "batch_exports",
        ))
        .foreign_key(&mut below(
            "batch_export_logs",
            "run_id",
            "batch_export_runs",
        ));
    manager.create_table(table).await?;
    for (name, owner) in [
        ("batch_export_logs_of_export", "batch_export_id"),
        ("batch_export_logs_of_run", "run_id"),
    ] {
        let mut index = Index::create();
        index
            .name(name)
            .table("batch_export_logs")
            .col(owner)
            .col("logged_at")
            .col("id");
        manager.create_index(index).await?;
    }
    Ok(())
}

/// Foreign key that deletes rows with their parent.
fn below(
    table: &'static str,
    column: &'static str,
    parent: &'static str,
) -> ForeignKeyCreateStatement {
    let mut key = ForeignKey::create();
    key.from(table, column)
        .to(parent, "id")
        .on_delete(ForeignKeyAction::Cascade);
    key
}
