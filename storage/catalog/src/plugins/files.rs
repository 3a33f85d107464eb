//! The files of a plugin.

use super::{Family, SeenPlugin};
use crate::catalog::Catalog;
use crate::entities::plugin_source_files as files;
use crate::error::CatalogError;
use crate::key::sha256_hex;
use crate::time::UtcTime;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    PaginatorTrait, QueryFilter, QueryOrder,
};

/// A plugin with its files, as (name, text), by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFiles {
    /// The plugin.
    pub seen: SeenPlugin,
    /// Its files.
    pub files: Vec<(String, String)>,
}

/// What becomes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// A path such as `src/index.ts`.
    pub name: String,
    /// Its new text; `None` deletes it.
    pub source: Option<String>,
}

/// A file that was changed, for the log: hashes, as texts may hold secrets.
#[derive(Clone, Debug)]
pub(super) struct ChangedFile {
    pub(super) name: String,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

impl Catalog {
    /// The files of a plugin.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn plugin_files(
        &self,
        organization_id: Uuid,
        family: Family,
        id: i64,
    ) -> Result<Option<PluginFiles>, CatalogError> {
        let Some(seen) = self.plugin(organization_id, family, id).await? else {
            return Ok(None);
        };
        let files = read(&self.db, id)
            .await
            .map_err(|error| self.error(&error))?;
        Ok(Some(PluginFiles { seen, files }))
    }
}

/// Whether a plugin has files.
pub(super) async fn any<C: ConnectionTrait>(db: &C, plugin_id: i64) -> Result<bool, DbErr> {
    let files = files::Entity::find().filter(files::Column::PluginId.eq(plugin_id));
    Ok(files.count(db).await? > 0)
}

pub(super) async fn read<C: ConnectionTrait>(
    db: &C,
    plugin_id: i64,
) -> Result<Vec<(String, String)>, DbErr> {
    let found = files::Entity::find()
        .filter(files::Column::PluginId.eq(plugin_id))
        .order_by_asc(files::Column::Filename)
        .all(db)
        .await?;
    let mut files: Vec<_> = found
        .into_iter()
        .map(|file| (file.filename, file.source))
        .collect();
    // PostgreSQL sorts by the database's language, SQLite by bytes.
    files.sort_unstable();
    Ok(files)
}

/// Makes a plugin's files these.
pub(super) async fn write(
    within: &DatabaseTransaction,
    plugin_id: i64,
    files: &[(String, String)],
    now: UtcTime,
) -> Result<(), DbErr> {
    let names = files.iter().map(|(name, _)| name.as_str());
    files::Entity::delete_many()
        .filter(files::Column::PluginId.eq(plugin_id))
        .filter(files::Column::Filename.is_not_in(names))
        .exec(within)
        .await?;
    for (filename, source) in files {
        let row = files::ActiveModel {
            plugin_id: ActiveValue::Set(plugin_id),
            filename: ActiveValue::Set(filename.clone()),
            source: ActiveValue::Set(source.clone()),
            updated_at: ActiveValue::Set(now),
        };
        let mut replace = OnConflict::columns([files::Column::PluginId, files::Column::Filename]);
        replace.update_columns([files::Column::Source, files::Column::UpdatedAt]);
        files::Entity::insert(row)
            .on_conflict(replace)
            .exec_without_returning(within)
            .await?;
    }
    Ok(())
}

/// The files that one of the two lacks or has otherwise.
pub(super) fn differing(old: &[(String, String)], new: &[(String, String)]) -> Vec<ChangedFile> {
    let mut names: Vec<&String> = old.iter().chain(new).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let hash_in = |files: &[(String, String)], name: &String| {
        let file = files.iter().find(|(known, _)| known == name);
        file.map(|(_, source)| format!("sha256:{}", sha256_hex(source.as_bytes())))
    };
    let file = |name: &String| ChangedFile {
        name: name.clone(),
        before: hash_in(old, name),
        after: hash_in(new, name),
    };
    let files = names.into_iter().map(file);
    files.filter(|file| file.before != file.after).collect()
}
