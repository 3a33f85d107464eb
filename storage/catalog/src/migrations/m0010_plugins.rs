//! Plugins, their files, and their configurations in projects.

use sea_orm_migration::schema::{
    big_integer, big_pk_auto, boolean, integer, json_binary, json_binary_null, text, text_null,
    uuid,
};
use sea_orm_migration::sea_query::{ForeignKey, ForeignKeyAction, Index, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0010_plugins"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        plugins(manager).await?;
        source_files(manager).await?;
        configs(manager).await
    }
}

async fn plugins(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("plugins")
        .col(big_pk_auto("id"))
        .col(uuid("organization_id"))
        .col(text_null("plugin_type"))
        .col(text_null("name"))
        .col(text_null("description"))
        .col(text_null("url"))
        .col(text_null("icon"))
        .col(json_binary("config_schema"))
        .col(text_null("tag"))
        .col(text_null("latest_tag"))
        .col(boolean("is_global"))
        .col(json_binary("capabilities"))
        .col(json_binary_null("metrics"))
        .col(json_binary_null("public_jobs"))
        .col(boolean("is_destination"))
        .col(boolean("is_frontend_app"))
        .col(boolean("is_import_app"))
        .col(boolean("is_transformation"))
        .col(big_integer("created_at"))
        .col(big_integer("updated_at"))
        .foreign_key(
            ForeignKey::create()
                .from("plugins", "organization_id")
                .to("organizations", "id")
                .on_delete(ForeignKeyAction::Cascade),
        );
    manager.create_table(table).await?;
    // Also finds the plugins of an organization; several may have no URL.
    let mut once = Index::create();
    once.name("plugins_url_once")
        .table("plugins")
        .col("organization_id")
        .col("url")
        .unique();
    manager.create_index(once).await?;
    let mut global = Index::create();
    global
        .name("plugins_global")
        .table("plugins")
        .col("is_global")
        .col("id");
    manager.create_index(global).await
}

async fn source_files(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("plugin_source_files")
        .col(big_integer("plugin_id"))
        .col(text("filename"))
        .col(text("source"))
        .col(big_integer("updated_at"))
        .primary_key(Index::create().col("plugin_id").col("filename"))
        .foreign_key(
            ForeignKey::create()
                .from("plugin_source_files", "plugin_id")
                .to("plugins", "id")
                .on_delete(ForeignKeyAction::Cascade),
        );
    manager.create_table(table).await
}

async fn configs(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("plugin_configs")
        .col(big_pk_auto("id"))
        .col(big_integer("plugin_id"))
        .col(big_integer("team_id"))
        .col(boolean("enabled"))
        .col(integer("position"))
        .col(json_binary("config"))
        .col(big_integer("created_at"))
        .col(big_integer("updated_at"))
        .foreign_key(
            ForeignKey::create()
                .from("plugin_configs", "plugin_id")
                .to("plugins", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .foreign_key(
            ForeignKey::create()
                .from("plugin_configs", "team_id")
                .to("projects", "id")
                .on_delete(ForeignKeyAction::Cascade),
        );
    manager.create_table(table).await?;
    let mut once = Index::create();
    once.name("plugin_configs_once")
        .table("plugin_configs")
        .col("team_id")
        .col("plugin_id")
        .unique();
    manager.create_index(once).await?;
    let mut of_plugin = Index::create();
    of_plugin
        .name("plugin_configs_of_plugin")
        .table("plugin_configs")
        .col("plugin_id");
    manager.create_index(of_plugin).await
}
