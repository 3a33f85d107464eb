//! Plugins, their source, and their configurations in projects.

use super::builder::{cascade, primary_key, table};
use crate::migrations::columns::{
    big_integer, big_pk_auto, boolean, integer, json_binary, json_binary_null, text, text_null,
    uuid,
};
use sea_orm::sea_query::TableCreateStatement;

/// Tables, parents before their children.
pub(super) fn tables() -> Vec<TableCreateStatement> {
    vec![
        plugins(),
        plugin_source_files(),
        plugin_configs(),
        deleted_plugins(),
        withdrawn_plugins(),
    ]
}

fn plugins() -> TableCreateStatement {
    table(
        "plugins",
        [
            big_pk_auto("id"),
            uuid("organization_id"),
            text_null("plugin_type"),
            text_null("name"),
            text_null("description"),
            text_null("url"),
            text_null("icon"),
            json_binary("config_schema"),
            text_null("tag"),
            text_null("latest_tag"),
            boolean("is_global"),
            json_binary("capabilities"),
            json_binary_null("metrics"),
            json_binary_null("public_jobs"),
            boolean("is_destination"),
            boolean("is_frontend_app"),
            boolean("is_import_app"),
            boolean("is_transformation"),
            big_integer("created_at"),
            big_integer("updated_at"),
        ],
    )
    .foreign_key(&mut cascade("organization_id", "organizations"))
    .take()
}

/// Deleted by `cleanup`, one plugin after the other.
fn plugin_source_files() -> TableCreateStatement {
    table(
        "plugin_source_files",
        [
            big_integer("plugin_id"),
            text("filename"),
            text("source"),
            big_integer("updated_at"),
        ],
    )
    .primary_key(&mut primary_key(&["plugin_id", "filename"]))
    .take()
}

fn plugin_configs() -> TableCreateStatement {
    table(
        "plugin_configs",
        [
            big_pk_auto("id"),
            big_integer("plugin_id"),
            big_integer("team_id"),
            boolean("enabled"),
            integer("position"),
            json_binary("config"),
            big_integer("created_at"),
            big_integer("updated_at"),
            json_binary_null("secret_keys"),
        ],
    )
    .foreign_key(&mut cascade("plugin_id", "plugins"))
    .foreign_key(&mut cascade("team_id", "projects"))
    .take()
}

fn deleted_plugins() -> TableCreateStatement {
    table(
        "deleted_plugins",
        [big_integer("plugin_id").primary_key().take()],
    )
}

fn withdrawn_plugins() -> TableCreateStatement {
    table(
        "withdrawn_plugins",
        [big_integer("plugin_id").primary_key().take()],
    )
    .foreign_key(&mut cascade("plugin_id", "plugins"))
    .take()
}
