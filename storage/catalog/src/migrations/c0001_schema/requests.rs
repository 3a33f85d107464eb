//! Activity log, stored responses, counters, leases and proxy records.

use super::builder::{cascade, primary_key, set_null, table};
use crate::migrations::columns::{
    big_integer, big_integer_null, json_binary, pk_uuid, small_integer_null, text, text_null, uuid,
    uuid_null,
};
use sea_orm::sea_query::TableCreateStatement;

/// Tables, parents before their children.
pub(super) fn tables() -> Vec<TableCreateStatement> {
    vec![
        activity_log(),
        activity_counts(),
        idempotency_keys(),
        idempotency_bytes(),
        catalog_versions(),
        leases(),
        proxy_records(),
    ]
}

/// Entries outlive the objects that they are about: there are no foreign keys.
fn activity_log() -> TableCreateStatement {
    table(
        "activity_log",
        [
            pk_uuid("id"),
            uuid_null("organization_id"),
            big_integer_null("user_id"),
            uuid_null("key_id"),
            text("actor_name"),
            text_null("actor_email"),
            text("activity"),
            text("scope"),
            text("item_id"),
            json_binary("detail"),
            big_integer("created_at"),
        ],
    )
}

/// Counted by the trigger `activity_counted`.
fn activity_counts() -> TableCreateStatement {
    table(
        "activity_counts",
        [
            uuid("organization_id"),
            text("scope"),
            big_integer("entries"),
        ],
    )
    .primary_key(&mut primary_key(&["organization_id", "scope"]))
    .take()
}

fn idempotency_keys() -> TableCreateStatement {
    table(
        "idempotency_keys",
        [
            text("id").primary_key().take(),
            text("request_hash"),
            small_integer_null("status"),
            text_null("body"),
            big_integer("created_at"),
        ],
    )
}

fn idempotency_bytes() -> TableCreateStatement {
    table(
        "idempotency_bytes",
        [text("holder"), big_integer("hour"), big_integer("bytes")],
    )
    .primary_key(&mut primary_key(&["holder", "hour"]))
    .take()
}

fn catalog_versions() -> TableCreateStatement {
    table(
        "catalog_versions",
        [text("name").primary_key().take(), big_integer("version")],
    )
}

fn leases() -> TableCreateStatement {
    table(
        "leases",
        [
            text("name").primary_key().take(),
            uuid("holder"),
            big_integer("lapses_at"),
        ],
    )
}

/// Claims: a domain is unique among those whose check proves it.
fn proxy_records() -> TableCreateStatement {
    table(
        "proxy_records",
        [
            pk_uuid("id"),
            uuid("organization_id"),
            text("domain"),
            text("target_cname"),
            text("status"),
            text_null("message"),
            big_integer_null("created_by"),
            big_integer("created_at"),
            big_integer("updated_at"),
            big_integer("check_at"),
        ],
    )
    .foreign_key(&mut cascade("organization_id", "organizations"))
    .foreign_key(&mut set_null("created_by", "users"))
    .take()
}
