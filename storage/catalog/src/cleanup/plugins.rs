//! Source files of deleted plugins.

use super::Cleanup;
use crate::entities::{deleted_plugins as deleted, plugin_source_files as files};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder};

impl Cleanup<'_> {
    /// Deletes the source files of one deleted plugin; answers how many rows. A plugin has at most
    /// 200 files of 5 MiB in all, so they are one piece.
    pub(super) async fn delete_of_plugin(self) -> Result<u64, DbErr> {
        let first = deleted::Entity::find()
            .order_by_asc(deleted::Column::PluginId)
            .one(&self.0.db)
            .await?;
        let Some(deleted::Model { plugin_id }) = first else {
            return Ok(0);
        };
        let gone = files::Entity::delete_many()
            .filter(files::Column::PluginId.eq(plugin_id))
            .exec(&self.0.writer)
            .await?;
        if gone.rows_affected > 0 {
            return Ok(gone.rows_affected);
        }
        let done = deleted::Entity::delete_by_id(plugin_id)
            .exec(&self.0.writer)
            .await?;
        Ok(done.rows_affected)
    }
}
