//! Organizations, their projects, domains, and what is left of deleted ones.

use super::builder::{cascade, table};
use crate::migrations::columns::{
    big_integer, big_integer_null, big_pk_auto, boolean, boolean_null, json_binary, pk_uuid,
    small_integer, text, text_null, text_uniq, uuid, uuid_uniq,
};
use sea_orm::sea_query::TableCreateStatement;

/// Tables, parents before their children.
pub(super) fn tables() -> Vec<TableCreateStatement> {
    vec![
        organizations(),
        projects(),
        organization_domains(),
        deleted_projects(),
        deleted_organizations(),
    ]
}

fn organizations() -> TableCreateStatement {
    table(
        "organizations",
        [
            pk_uuid("id"),
            text("name"),
            text_uniq("slug"),
            big_integer("created_at"),
            big_integer("updated_at"),
            boolean("is_member_join_email_enabled"),
            boolean_null("enforce_2fa"),
            boolean("members_can_write_pipelines"),
            small_integer("plugins_access_level"),
            text_null("customer_id"),
            json_binary("disabled_features"),
            big_integer("member_count").default(0).take(),
        ],
    )
}

/// Ids are never used again: AUTOINCREMENT in SQLite, a sequence in PostgreSQL.
fn projects() -> TableCreateStatement {
    table(
        "projects",
        [
            big_pk_auto("id"),
            uuid_uniq("uuid"),
            uuid("organization_id"),
            text("name"),
            text_null("api_token").unique_key().take(),
            boolean("api_token_imported"),
            boolean("anonymize_ips"),
            text("timezone"),
            big_integer("created_at"),
            big_integer("updated_at"),
            boolean("ingested_event").default(false).take(),
        ],
    )
    .foreign_key(&mut cascade("organization_id", "organizations"))
    .take()
}

/// A claim excludes nobody; the first proof does.
fn organization_domains() -> TableCreateStatement {
    table(
        "organization_domains",
        [
            pk_uuid("id"),
            uuid("organization_id"),
            text("domain"),
            text("verification_challenge"),
            big_integer_null("verified_at"),
            boolean("jit_provisioning_enabled"),
            text("sso_enforcement"),
            text_null("saml_entity_id"),
            text_null("saml_acs_url"),
            text_null("saml_x509_cert"),
            big_integer("created_at"),
            big_integer("updated_at"),
        ],
    )
    .foreign_key(&mut cascade("organization_id", "organizations"))
    .take()
}

/// Written by a trigger, as other marks of deleted rows are; `cleanup` deletes the rest.
fn deleted_projects() -> TableCreateStatement {
    table(
        "deleted_projects",
        [big_integer("team_id").primary_key().take()],
    )
}

fn deleted_organizations() -> TableCreateStatement {
    table("deleted_organizations", [pk_uuid("organization_id")])
}
