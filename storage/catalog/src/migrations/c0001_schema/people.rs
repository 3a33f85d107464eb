//! Users, their memberships, roles, keys and invites.

use super::builder::{cascade, set_null, table};
use crate::migrations::columns::{
    big_integer, big_integer_null, big_pk_auto, boolean, boolean_null, json_binary,
    json_binary_null, pk_uuid, small_integer, text, text_null, text_uniq, uuid, uuid_uniq,
};
use sea_orm::sea_query::TableCreateStatement;

/// Tables, parents before their children.
pub(super) fn tables() -> Vec<TableCreateStatement> {
    vec![
        users(),
        organization_memberships(),
        roles(),
        role_memberships(),
        organization_invites(),
        personal_api_keys(),
        unused_users(),
    ]
}

fn users() -> TableCreateStatement {
    table(
        "users",
        [
            big_pk_auto("id"),
            uuid_uniq("uuid"),
            text("distinct_id"),
            text_uniq("email"),
            text("first_name"),
            text("last_name"),
            boolean_null("is_email_verified"),
            boolean("is_active"),
            big_integer("created_at"),
            big_integer("updated_at"),
        ],
    )
}

fn organization_memberships() -> TableCreateStatement {
    table(
        "organization_memberships",
        [
            pk_uuid("id"),
            uuid("organization_id"),
            big_integer("user_id"),
            small_integer("level"),
            big_integer("joined_at"),
            big_integer("updated_at"),
        ],
    )
    .foreign_key(&mut cascade("organization_id", "organizations"))
    .foreign_key(&mut cascade("user_id", "users"))
    .take()
}

fn roles() -> TableCreateStatement {
    table(
        "roles",
        [
            pk_uuid("id"),
            uuid("organization_id"),
            text("name"),
            text("name_key"),
            small_integer("feature_flags_access_level"),
            big_integer_null("created_by_id"),
            big_integer("created_at"),
        ],
    )
    .foreign_key(&mut cascade("organization_id", "organizations"))
    .foreign_key(&mut set_null("created_by_id", "users"))
    .take()
}

fn role_memberships() -> TableCreateStatement {
    table(
        "role_memberships",
        [
            pk_uuid("id"),
            uuid("role_id"),
            uuid("membership_id"),
            big_integer("joined_at"),
            big_integer("updated_at"),
        ],
    )
    .foreign_key(&mut cascade("role_id", "roles"))
    .foreign_key(&mut cascade("membership_id", "organization_memberships"))
    .take()
}

fn organization_invites() -> TableCreateStatement {
    table(
        "organization_invites",
        [
            pk_uuid("id"),
            uuid("organization_id"),
            text("target_email"),
            text("email_key"),
            text("first_name"),
            small_integer("level"),
            text_null("message"),
            json_binary("private_project_access"),
            boolean("emailing_attempt_made"),
            text_uniq("token_hash"),
            big_integer("expires_at"),
            big_integer_null("created_by_id"),
            big_integer("created_at"),
            big_integer("updated_at"),
        ],
    )
    .foreign_key(&mut cascade("organization_id", "organizations"))
    .foreign_key(&mut set_null("created_by_id", "users"))
    .take()
}

fn personal_api_keys() -> TableCreateStatement {
    table(
        "personal_api_keys",
        [
            pk_uuid("id"),
            big_integer("user_id"),
            text("label"),
            text_uniq("key_hash"),
            text("mask_value"),
            json_binary("scopes"),
            json_binary_null("scoped_organizations"),
            big_integer_null("expires_at"),
            big_integer_null("last_used_at"),
            big_integer_null("last_rolled_at"),
            big_integer_null("revoked_at"),
            big_integer("created_at"),
        ],
    )
    .foreign_key(&mut cascade("user_id", "users"))
    .take()
}

fn unused_users() -> TableCreateStatement {
    table(
        "unused_users",
        [
            big_integer("user_id").primary_key().take(),
            big_integer("since"),
        ],
    )
    .foreign_key(&mut cascade("user_id", "users"))
    .take()
}
