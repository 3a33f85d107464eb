//! Changing the source of a plugin, and what follows from it.

use super::access::{PluginWriter, changeable, found, may_change};
use super::capabilities::{MANIFEST, capabilities_of, main_file};
use super::fields::{PluginFields, fits};
use super::files::{
    ChangedFile, FileChange, PLUGIN_FILES_MAX, PLUGIN_SOURCE_BYTES_MAX, PluginFiles, blame,
    blame_instead, bytes_of, check_file, differing, read, write,
};
use super::write::set_capabilities;
use crate::catalog::Catalog;
use crate::error::ChangeError;
use sea_orm::prelude::Json;
use serde_json::Value;

impl Catalog {
    /// Changes fields and files. `plugin.json` sets the name and what may be configured; the main
    /// file says what the plugin can do.
    ///
    /// # Errors
    ///
    /// As [`Catalog::update_plugin`]; a bad name of a file, or more files or bytes than
    /// [`PLUGIN_FILES_MAX`] and [`PLUGIN_SOURCE_BYTES_MAX`]; a manifest that sets a bad field.
    pub async fn update_plugin_source(
        &self,
        writer: PluginWriter<'_>,
        id: i64,
        fields: PluginFields,
        changes: Vec<FileChange>,
    ) -> Result<PluginFiles, ChangeError> {
        fields.check()?;
        let mut revision = self.revision(writer, id, &changes).await?;
        let transaction = self.begin().await?;
        let changed = async {
            let before = changeable(&transaction, writer, id).await?;
            let old = read(&transaction, id).await?;
            if old != revision.old {
                // Somebody was faster: this seldom happens twice, so others may wait for it.
                revision = Revision::of(old, &changes).await?;
            }
            let has_source = !revision.new.is_empty();
            let mut after = Self::with_fields(writer, &before, fields, has_source)?;
            revision.manifest.apply(&mut after);
            if let Some(capabilities) = revision.capabilities {
                set_capabilities(&mut after, capabilities);
            }
            let (files, touched) = (revision.new, revision.touched);
            write(&transaction, id, &files, &touched, self.now()).await?;
            self.save(&transaction, writer, &before, after, touched)
                .await?;
            let seen = found(&transaction, writer.anywhere(), id).await?;
            Ok(PluginFiles { seen, files })
        };
        let changed = changed.await;
        self.finish(transaction, changed).await
    }

    /// Works a change out for the source as it is now; nobody waits for that.
    async fn revision(
        &self,
        writer: PluginWriter<'_>,
        id: i64,
        changes: &[FileChange],
    ) -> Result<Revision, ChangeError> {
        let now = self.plugin_files(writer.organization_id, writer.family, id);
        let now = now.await?;
        let now = now.ok_or_else(|| ChangeError::not_found("plugin", &id))?;
        may_change(writer, &now.seen.plugin)?;
        Revision::of(now.files, changes).await
    }
}

/// A changed source, and what follows from it.
struct Revision {
    /// What was changed.
    old: Vec<(String, String)>,
    /// What came of it.
    new: Vec<(String, String)>,
    /// Where the two differ.
    touched: Vec<ChangedFile>,
    /// What a changed manifest sets.
    manifest: PluginFields,
    /// What the changed source can do; `None`: nothing changed, or there is no main file.
    capabilities: Option<Json>,
}

impl Revision {
    async fn of(old: Vec<(String, String)>, changes: &[FileChange]) -> Result<Self, ChangeError> {
        let new = merged(&old, changes)?;
        let touched = differing(&old, &new);
        let manifest = manifest_fields(&new, &touched)?;
        let capabilities = if touched.is_empty() {
            None
        } else {
            read_capabilities(&new).await?
        };
        Ok(Self {
            old,
            new,
            touched,
            manifest,
            capabilities,
        })
    }
}

/// Parsing may take a while, and others wait for this thread.
pub(super) async fn read_capabilities(
    files: &[(String, String)],
) -> Result<Option<Json>, ChangeError> {
    let Some((name, text)) = main_file(files) else {
        return Ok(None);
    };
    let text = text.to_owned();
    let read = tokio::task::spawn_blocking(move || capabilities_of(&text)).await;
    let capabilities = read.ok().and_then(|read| serde_json::to_value(read).ok());
    if let Some(capabilities) = &capabilities {
        let fit = fits("capabilities", capabilities);
        fit.map_err(|error| blame_instead(name, "what this can do", error))?;
    }
    Ok(capabilities)
}

fn merged(
    old: &[(String, String)],
    changes: &[FileChange],
) -> Result<Vec<(String, String)>, ChangeError> {
    let mut files = old.to_vec();
    for FileChange { name, source } in changes {
        check_file(name, source.as_deref().unwrap_or_default())?;
        files.retain(|(known, _)| known != name);
        if let Some(source) = source {
            files.push((name.clone(), source.clone()));
        }
    }
    if files.len() > PLUGIN_FILES_MAX {
        let detail = format!("a plugin may have at most {PLUGIN_FILES_MAX} files");
        return Err(ChangeError::invalid(None, "max_length", detail));
    }
    let written = changes
        .iter()
        .filter_map(|change| Some((change.source.as_ref()?.len(), &change.name)));
    // Nobody is kept from deleting.
    if let Some((_, largest)) = written.max()
        && bytes_of(&files) > PLUGIN_SOURCE_BYTES_MAX
    {
        let detail =
            format!("all files of a plugin may have at most {PLUGIN_SOURCE_BYTES_MAX} bytes");
        return Err(blame(largest, "max_length", detail));
    }
    files.sort_unstable();
    Ok(files)
}

/// A changed manifest sets the name and what may be configured, by the rules of those fields.
fn manifest_fields(
    files: &[(String, String)],
    touched: &[ChangedFile],
) -> Result<PluginFields, ChangeError> {
    let is_touched = touched.iter().any(|file| file.name == MANIFEST);
    let text = files.iter().find(|(name, _)| name == MANIFEST);
    let Some((_, text)) = text.filter(|_| is_touched) else {
        return Ok(PluginFields::default());
    };
    let manifest: Value = serde_json::from_str(text).map_err(|error| {
        let detail = format!("{MANIFEST} is not JSON: {error}");
        blame(MANIFEST, "invalid_input", detail)
    })?;
    let name = manifest.get("name").and_then(Value::as_str);
    let schema = manifest.get("config").filter(|schema| !schema.is_null());
    let fields = PluginFields {
        name: name.map(|name| Some(name.to_owned())),
        config_schema: schema.cloned(),
        ..PluginFields::default()
    };
    let checked = fields.check();
    checked.map_err(|error| blame_instead(MANIFEST, MANIFEST, error))?;
    Ok(fields)
}
