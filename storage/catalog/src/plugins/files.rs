//! The files of a plugin.

use super::{Family, SeenPlugin};
use crate::catalog::Catalog;
use crate::entities::plugin_source_files as files;
use crate::error::{CatalogError, ChangeError, Violation};
use crate::key::sha256_hex;
use crate::time::UtcTime;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    PaginatorTrait, QueryFilter, QueryOrder,
};

/// The most files of a plugin.
pub const PLUGIN_FILES_MAX: usize = 200;
/// The most bytes of all of them, names and texts: whoever reads or changes the source has it in
/// memory as a whole.
pub const PLUGIN_SOURCE_BYTES_MAX: usize = 5 * 1024 * 1024;
/// The longest name of a file, in characters.
const FILENAME_CHARS_MAX: usize = 200;

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

/// Makes a plugin's files these, where they are touched.
pub(super) async fn write(
    within: &DatabaseTransaction,
    plugin_id: i64,
    files: &[(String, String)],
    touched: &[ChangedFile],
    now: UtcTime,
) -> Result<(), DbErr> {
    let is_touched = |name: &str| touched.iter().any(|file| file.name == name);
    let gone = touched.iter().filter(|file| file.after.is_none());
    let gone: Vec<&str> = gone.map(|file| file.name.as_str()).collect();
    if !gone.is_empty() {
        files::Entity::delete_many()
            .filter(files::Column::PluginId.eq(plugin_id))
            .filter(files::Column::Filename.is_in(gone))
            .exec(within)
            .await?;
    }
    for (filename, source) in files.iter().filter(|(name, _)| is_touched(name)) {
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
    let hash = |text: &str| format!("sha256:{}", sha256_hex(text.as_bytes()));
    let file = |name: &String| {
        let (before, after) = (text_of(old, name), text_of(new, name));
        (before != after).then(|| ChangedFile {
            name: name.clone(),
            before: before.map(hash),
            after: after.map(hash),
        })
    };
    names.into_iter().filter_map(file).collect()
}

fn text_of<'a>(files: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let file = files.iter().find(|(known, _)| known == name);
    file.map(|(_, text)| text.as_str())
}

/// How much files are, in bytes.
pub(super) fn bytes_of(files: &[(String, String)]) -> usize {
    files
        .iter()
        .map(|(name, text)| name.len() + text.len())
        .sum()
}

/// Whether a file can be kept.
pub(super) fn check_file(name: &str, text: &str) -> Result<(), ChangeError> {
    let chars = name.chars().count();
    if !(1..=FILENAME_CHARS_MAX).contains(&chars) {
        let detail = format!("a file needs a name of 1 to {FILENAME_CHARS_MAX} characters");
        return Err(blame(name, "invalid_input", detail));
    }
    if name.contains('\0') || text.contains('\0') {
        let detail = "a file may not hold null characters".to_owned();
        return Err(blame(name, "invalid_input", detail));
    }
    Ok(())
}

/// Blames a file, or a field of another name than the one that is wrong.
pub(super) fn blame(field: &str, code: &'static str, detail: String) -> ChangeError {
    ChangeError::Invalid(Box::new(Violation {
        field: Some(field.to_owned()),
        code,
        detail,
    }))
}

/// Blames `field` for what is wrong in something that came with it.
pub(super) fn blame_instead(field: &str, what: &str, error: ChangeError) -> ChangeError {
    match error.violation() {
        Some(violation) => {
            let detail = format!("{what}: {}", violation.detail);
            blame(field, violation.code, detail)
        }
        None => error,
    }
}
