//! Nodes that take events, and imports with their quota.

use super::builder::{cascade, primary_key, table};
use crate::migrations::columns::{big_integer, big_integer_null, pk_uuid, text, text_null, uuid};
use sea_orm::sea_query::TableCreateStatement;

/// Tables, parents before their children.
pub(super) fn tables() -> Vec<TableCreateStatement> {
    vec![
        ingest_nodes(),
        historical_migrations(),
        import_quotas(),
        import_leases(),
    ]
}

fn ingest_nodes() -> TableCreateStatement {
    table(
        "ingest_nodes",
        [
            text("name").primary_key().take(),
            text("host"),
            text("state"),
            big_integer_null("watermark"),
            big_integer("published_at"),
            big_integer("started_at"),
            big_integer("start_count").default(0).take(),
            text("start_id").default("").take(),
            big_integer_null("updates_watermark"),
        ],
    )
}

fn historical_migrations() -> TableCreateStatement {
    table(
        "historical_migrations",
        [
            pk_uuid("id"),
            uuid("organization_id"),
            big_integer("team_id"),
            text("source"),
            text("method"),
            big_integer("total_events"),
            big_integer("events_per_minute"),
            text("state"),
            big_integer("events_imported"),
            big_integer("created_at"),
            big_integer_null("decided_at"),
            text_null("note"),
            big_integer("events_leased").default(0).take(),
        ],
    )
    .foreign_key(&mut cascade("organization_id", "organizations"))
    .foreign_key(&mut cascade("team_id", "projects"))
    .take()
}

fn import_quotas() -> TableCreateStatement {
    table(
        "import_quotas",
        [
            big_integer("team_id").primary_key().take(),
            big_integer("events_leased"),
            big_integer("events_imported"),
            big_integer("bucket_units"),
            big_integer("bucket_per_minute"),
            big_integer("bucket_at"),
        ],
    )
    .foreign_key(&mut cascade("team_id", "projects"))
    .take()
}

fn import_leases() -> TableCreateStatement {
    table(
        "import_leases",
        [
            uuid("holder"),
            big_integer("team_id"),
            uuid("grant_id"),
            big_integer("events_counted"),
            big_integer("events_held"),
            big_integer("expires_at"),
        ],
    )
    .primary_key(&mut primary_key(&["team_id", "holder", "grant_id"]))
    .foreign_key(&mut cascade("team_id", "projects"))
    .take()
}
