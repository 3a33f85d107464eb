//! Marks of withdrawn plugins. A plugin that is global no more was deleted from the projects of
//! other organizations in the transaction of its change, which locked all of these organizations.
//! Now the change leaves a mark, and `cleanup` deletes the configurations, of one organization at a
//! time.
//!
//! Earlier versions left such configurations in place: their plugins are marked here.

use super::columns::big_integer;
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::sea_query::{ForeignKey, ForeignKeyAction, Table};
use sea_orm::{ConnectionTrait, DbErr};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0047_withdrawn_plugins"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut marks = Table::create();
        marks
            .table("withdrawn_plugins")
            .col(big_integer("plugin_id").primary_key())
            .foreign_key(
                ForeignKey::create()
                    .from("withdrawn_plugins", "plugin_id")
                    .to("plugins", "id")
                    .on_delete(ForeignKeyAction::Cascade),
            );
        schema.execute(&marks).await?;
        let connection = schema.connection();
        let marked = connection.execute_unprepared(MARK_EARLIER).await?;
        let plugins = marked.rows_affected();
        if plugins > 0 {
            tracing::info!(
                plugins,
                "plugins that were withdrawn before are still used by other organizations: these \
                 uses will be deleted, each with an entry in the log of its organization"
            );
        }
        Ok(())
    }
}

const MARK_EARLIER: &str = "INSERT INTO withdrawn_plugins (plugin_id) \
     SELECT DISTINCT plugins.id FROM plugin_configs \
     JOIN plugins ON plugins.id = plugin_configs.plugin_id \
     JOIN projects ON projects.id = plugin_configs.team_id \
     WHERE NOT plugins.is_global AND projects.organization_id <> plugins.organization_id";
