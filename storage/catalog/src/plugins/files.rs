//! The source of a plugin: its files, and what follows from them.

use super::capabilities::{MANIFEST, capabilities_of};
use super::fields::{PluginFields, PluginRelease};
use super::write::{PluginWriter, changeable, found, found_for_change, set_capabilities};
use super::{Family, SeenPlugin};
use crate::catalog::Catalog;
use crate::entities::{plugin_source_files as files, plugins};
use crate::error::{CatalogError, ChangeError, Violation};
use crate::key::sha256_hex;
use crate::time::UtcTime;
use sea_orm::prelude::{Json, Uuid};
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    PaginatorTrait, QueryFilter, QueryOrder,
};
use serde_json::Value;

/// The longest name of a file, in characters.
const FILENAME_CHARS_MAX: usize = 200;
/// The most files of a plugin.
const FILES_MAX: usize = 200;

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

/// A release whose source was read.
pub(super) struct Installed {
    release: PluginRelease,
    capabilities: Option<Json>,
}

impl Installed {
    pub(super) async fn prepare(release: PluginRelease) -> Self {
        let capabilities = read_capabilities(release.files.clone()).await;
        Self {
            release,
            capabilities,
        }
    }

    /// Sets what the release says.
    pub(super) fn apply(&self, plugin: &mut plugins::Model) {
        let release = &self.release;
        plugin.name = Some(release.name.clone());
        // What people wrote stays where the release says nothing.
        plugin.description = release.description.clone().or(plugin.description.take());
        plugin.icon = release.icon.clone().or(plugin.icon.take());
        plugin.tag = Some(release.tag.clone());
        plugin.latest_tag = Some(release.tag.clone());
        plugin.config_schema = release.config_schema.clone();
        if let Some(capabilities) = &self.capabilities {
            set_capabilities(plugin, capabilities.clone());
        }
    }

    pub(super) fn files(&self) -> &[(String, String)] {
        &self.release.files
    }
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

    /// Changes fields and files. `plugin.json` sets the name and what may be configured; the main
    /// file says what the plugin can do.
    ///
    /// # Errors
    ///
    /// As [`Catalog::update_plugin`]; a bad name of a file, or too many.
    pub async fn update_plugin_source(
        &self,
        writer: PluginWriter<'_>,
        id: i64,
        fields: PluginFields,
        changes: Vec<FileChange>,
    ) -> Result<PluginFiles, ChangeError> {
        fields.check()?;
        let transaction = self.begin().await?;
        let changed = async {
            let before = changeable(&transaction, writer, id).await?;
            let old = read(&transaction, id).await?;
            let new = merged(&old, changes)?;
            let touched = differing(&old, &new);
            let has_source = !new.is_empty();
            let mut after = Self::with_fields(writer, &before, fields, has_source)?;
            if !touched.is_empty() {
                follow_manifest(&mut after, &new, &touched)?;
                if let Some(capabilities) = read_capabilities(new.clone()).await {
                    set_capabilities(&mut after, capabilities);
                }
                write(&transaction, id, &new, self.now()).await?;
            }
            self.save(&transaction, writer, &before, after, touched)
                .await?;
            let seen = found(&transaction, writer.anywhere(), id).await?;
            Ok(PluginFiles { seen, files: new })
        };
        let changed = changed.await;
        self.finish(transaction, changed).await
    }

    /// Replaces a plugin's source by a release, if there is one; what else is given wins over
    /// what the release says.
    ///
    /// # Errors
    ///
    /// As [`Catalog::update_plugin`].
    pub async fn upgrade_plugin(
        &self,
        writer: PluginWriter<'_>,
        id: i64,
        fields: PluginFields,
        release: Option<PluginRelease>,
    ) -> Result<SeenPlugin, ChangeError> {
        fields.check()?;
        let installed = match release {
            Some(release) => Some(Installed::prepare(release).await),
            None => None,
        };
        let transaction = self.begin().await?;
        let upgraded = async {
            let before = changeable(&transaction, writer, id).await?;
            let old = read(&transaction, id).await?;
            let has_source = !old.is_empty() || installed.is_some();
            let mut released = before.clone();
            let mut touched = Vec::new();
            if let Some(installed) = &installed {
                installed.apply(&mut released);
                touched = differing(&old, installed.files());
                write(&transaction, id, installed.files(), self.now()).await?;
            }
            let after = Self::with_fields(writer, &released, fields, has_source)?;
            self.save(&transaction, writer, &before, after, touched)
                .await?;
            found(&transaction, writer.anywhere(), id).await
        };
        let upgraded = upgraded.await;
        self.finish(transaction, upgraded).await
    }

    /// Keeps which version the catalogue has; that of another organization's plugin is theirs to
    /// keep, and only answered.
    ///
    /// # Errors
    ///
    /// No such plugin, or what the database says.
    pub async fn set_plugin_latest_tag(
        &self,
        writer: PluginWriter<'_>,
        id: i64,
        latest_tag: Option<String>,
    ) -> Result<SeenPlugin, ChangeError> {
        let transaction = self.begin().await?;
        let changed = async {
            let mut seen = found_for_change(&transaction, writer, id).await?;
            let before = seen.plugin.clone();
            seen.plugin.latest_tag = latest_tag;
            if before.organization_id == writer.organization_id {
                let after = seen.plugin.clone();
                self.save(&transaction, writer, &before, after, Vec::new())
                    .await?;
            }
            Ok(seen)
        };
        let changed = changed.await;
        self.finish(transaction, changed).await
    }
}

/// Parsing may take a while, and others wait for this thread.
async fn read_capabilities(files: Vec<(String, String)>) -> Option<Json> {
    let read = tokio::task::spawn_blocking(move || capabilities_of(&files));
    let capabilities = read.await.ok().flatten()?;
    serde_json::to_value(capabilities).ok()
}

/// Whether a plugin has files.
pub(super) async fn any<C: ConnectionTrait>(db: &C, plugin_id: i64) -> Result<bool, DbErr> {
    let files = files::Entity::find().filter(files::Column::PluginId.eq(plugin_id));
    Ok(files.count(db).await? > 0)
}

async fn read<C: ConnectionTrait>(db: &C, plugin_id: i64) -> Result<Vec<(String, String)>, DbErr> {
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

fn merged(
    old: &[(String, String)],
    changes: Vec<FileChange>,
) -> Result<Vec<(String, String)>, ChangeError> {
    let mut files = old.to_vec();
    for change in changes {
        check_filename(&change.name)?;
        files.retain(|(name, _)| *name != change.name);
        if let Some(source) = change.source {
            files.push((change.name, source));
        }
    }
    if files.len() > FILES_MAX {
        let detail = format!("a plugin may have at most {FILES_MAX} files");
        return Err(ChangeError::invalid(None, "max_length", detail));
    }
    files.sort_unstable();
    Ok(files)
}

fn check_filename(name: &str) -> Result<(), ChangeError> {
    let chars = name.chars().count();
    if (1..=FILENAME_CHARS_MAX).contains(&chars) {
        return Ok(());
    }
    let detail = format!("a file needs a name of 1 to {FILENAME_CHARS_MAX} characters");
    Err(blame(name, "invalid_input", detail))
}

fn blame(file: &str, code: &'static str, detail: String) -> ChangeError {
    ChangeError::Invalid(Box::new(Violation {
        field: Some(file.to_owned()),
        code,
        detail,
    }))
}

fn differing(old: &[(String, String)], new: &[(String, String)]) -> Vec<ChangedFile> {
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

/// A changed manifest sets the name and what may be configured.
fn follow_manifest(
    plugin: &mut plugins::Model,
    files: &[(String, String)],
    touched: &[ChangedFile],
) -> Result<(), ChangeError> {
    let is_touched = touched.iter().any(|file| file.name == MANIFEST);
    let text = files.iter().find(|(name, _)| name == MANIFEST);
    let Some((_, text)) = text.filter(|_| is_touched) else {
        return Ok(());
    };
    let manifest: Value = serde_json::from_str(text).map_err(|error| {
        blame(
            MANIFEST,
            "invalid_input",
            format!("{MANIFEST} is not JSON: {error}"),
        )
    })?;
    if let Some(name) = manifest.get("name").and_then(Value::as_str) {
        plugin.name = Some(name.to_owned());
    }
    if let Some(schema) = manifest.get("config") {
        plugin.config_schema = schema.clone();
    }
    Ok(())
}
