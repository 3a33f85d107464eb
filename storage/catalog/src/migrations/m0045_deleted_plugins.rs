//! Delayed deletion of a plugin's source files, as of runs after their export: an organization has
//! five hundred plugins of five megabytes, and its deletion took all of their files along in one
//! transaction. A trigger records each deletion of a plugin, also by a cascade, and `cleanup`
//! deletes the files, one plugin after the other.
//!
//! SQLite cannot take a foreign key away, so the table is copied there.

use super::columns::{big_integer, text};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::sea_query::{Index, Table};
use sea_orm::{ConnectionTrait, DbBackend, DbErr};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0045_deleted_plugins"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut marks = Table::create();
        marks
            .table("deleted_plugins")
            .col(big_integer("plugin_id").primary_key());
        schema.execute(&marks).await?;
        let connection = schema.connection();
        match schema.backend() {
            DbBackend::Postgres => {
                connection.execute_unprepared(MARK_IN_POSTGRES).await?;
                connection.execute_unprepared(RELEASE_IN_POSTGRES).await?;
            }
            _ => {
                connection.execute_unprepared(MARK_IN_SQLITE).await?;
                let mut copied = Table::create();
                copied
                    .table("plugin_source_files_copied")
                    .col(big_integer("plugin_id"))
                    .col(text("filename"))
                    .col(text("source"))
                    .col(big_integer("updated_at"))
                    .primary_key(Index::create().col("plugin_id").col("filename"));
                schema.execute(&copied).await?;
                connection.execute_unprepared(COPY_IN_SQLITE).await?;
            }
        }
        Ok(())
    }
}

const MARK_IN_SQLITE: &str = "CREATE TRIGGER plugins_deleted AFTER DELETE ON plugins BEGIN \
     INSERT INTO deleted_plugins (plugin_id) VALUES (OLD.id) ON CONFLICT DO NOTHING; END";

const MARK_IN_POSTGRES: &str = "CREATE FUNCTION plugins_deleted() RETURNS trigger LANGUAGE plpgsql \
     AS $$ BEGIN INSERT INTO deleted_plugins (plugin_id) VALUES (OLD.id) \
     ON CONFLICT DO NOTHING; RETURN NULL; END $$; \
     CREATE TRIGGER plugins_deleted AFTER DELETE ON plugins FOR EACH ROW \
     EXECUTE FUNCTION plugins_deleted()";

/// The name is PostgreSQL's, as `m0010` gave none.
const RELEASE_IN_POSTGRES: &str =
    "ALTER TABLE plugin_source_files DROP CONSTRAINT plugin_source_files_plugin_id_fkey";

const COPY_IN_SQLITE: &str = "INSERT INTO plugin_source_files_copied (plugin_id, filename, source, updated_at) \
     SELECT plugin_id, filename, source, updated_at FROM plugin_source_files; \
     DROP TABLE plugin_source_files; \
     ALTER TABLE plugin_source_files_copied RENAME TO plugin_source_files";
