//! Batch exports, their runs, backfills and log lines.

use super::builder::{cascade, table};
use crate::migrations::columns::{
    big_integer, big_integer_null, big_pk_auto, boolean, integer, json, json_binary,
    json_binary_null, json_null, pk_uuid, text, text_null, uuid, uuid_null,
};
use sea_orm::sea_query::TableCreateStatement;

/// Tables, parents before their children.
pub(super) fn tables() -> Vec<TableCreateStatement> {
    vec![
        batch_exports(),
        batch_export_backfills(),
        batch_export_runs(),
        batch_export_logs(),
        batch_export_latest_runs(),
        deleted_batch_exports(),
    ]
}

fn batch_exports() -> TableCreateStatement {
    table(
        "batch_exports",
        [
            pk_uuid("id"),
            uuid("organization_id"),
            big_integer("team_id"),
            text("name"),
            text("model"),
            text("destination_type"),
            json_binary("destination_config"),
            json_binary("destination_secrets"),
            text("interval"),
            boolean("paused"),
            big_integer_null("last_paused_at"),
            big_integer_null("start_at"),
            big_integer_null("end_at"),
            text_null("hogql_query"),
            json_binary_null("query_schema"),
            big_integer("runs_count"),
            big_integer("created_at"),
            big_integer("last_updated_at"),
            big_integer_null("live_since"),
            big_integer_null("windows_until"),
            big_integer_null("next_window_end"),
            boolean("files_at_root").default(false).take(),
            big_integer_null("paused_since"),
            big_integer_null("resumed_at"),
            json_null("passed_over"),
            big_integer_null("waits_since"),
            big_integer_null("wait_told_at"),
            big_integer("busy_until").default(0).take(),
        ],
    )
    .foreign_key(&mut cascade("organization_id", "organizations"))
    .foreign_key(&mut cascade("team_id", "projects"))
    .take()
}

fn batch_export_backfills() -> TableCreateStatement {
    table(
        "batch_export_backfills",
        [
            pk_uuid("id"),
            uuid("batch_export_id"),
            big_integer_null("start_at"),
            big_integer_null("end_at"),
            text("status"),
            big_integer_null("total_runs"),
            big_integer("finished_runs"),
            big_integer("created_at"),
            big_integer_null("finished_at"),
            big_integer("last_updated_at"),
            text_null("message"),
            json_null("asked_for"),
        ],
    )
}

/// Runs go with their backfill at once. There is no foreign key to their export: `cleanup` deletes
/// them after it, in pieces.
fn batch_export_runs() -> TableCreateStatement {
    table(
        "batch_export_runs",
        [
            pk_uuid("id"),
            uuid("batch_export_id"),
            big_integer("ordinal"),
            uuid_null("backfill_id"),
            text("status"),
            big_integer_null("data_interval_start"),
            big_integer("data_interval_end"),
            big_integer_null("records_completed"),
            big_integer_null("records_total_count"),
            text_null("cursor"),
            text_null("latest_error"),
            big_integer("created_at"),
            big_integer_null("finished_at"),
            big_integer("last_updated_at"),
            uuid_null("claim"),
            big_integer("claim_lapses_at").default(0).take(),
            big_integer("next_try_at").default(0).take(),
            integer("failures_count").default(0).take(),
            big_integer_null("bytes_exported"),
        ],
    )
    .foreign_key(&mut cascade("backfill_id", "batch_export_backfills"))
    .take()
}

fn batch_export_logs() -> TableCreateStatement {
    table(
        "batch_export_logs",
        [
            big_pk_auto("id"),
            uuid("batch_export_id"),
            uuid_null("run_id"),
            big_integer("logged_at"),
            text("level"),
            text("message"),
        ],
    )
    .foreign_key(&mut cascade("run_id", "batch_export_runs"))
    .take()
}

fn batch_export_latest_runs() -> TableCreateStatement {
    table(
        "batch_export_latest_runs",
        [pk_uuid("batch_export_id"), json("runs")],
    )
    .foreign_key(&mut cascade("batch_export_id", "batch_exports"))
    .take()
}

fn deleted_batch_exports() -> TableCreateStatement {
    table("deleted_batch_exports", [pk_uuid("batch_export_id")])
}
