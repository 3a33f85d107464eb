//! Changing the source of a plugin, and what follows from it.

use super::access::{PluginWriter, changeable, found};
use super::capabilities::{MANIFEST, capabilities_of};
use super::fields::PluginFields;
use super::files::{ChangedFile, FileChange, PluginFiles, differing, read, write};
use super::write::set_capabilities;
use crate::catalog::Catalog;
use crate::entities::plugins;
use crate::error::{ChangeError, Violation};
use sea_orm::prelude::Json;
use serde_json::Value;

/// The longest name of a file, in characters.
const FILENAME_CHARS_MAX: usize = 200;
/// The most files of a plugin.
const FILES_MAX: usize = 200;

impl Catalog {
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
}

/// Parsing may take a while, and others wait for this thread.
pub(super) async fn read_capabilities(files: Vec<(String, String)>) -> Option<Json> {
    let read = tokio::task::spawn_blocking(move || capabilities_of(&files));
    let capabilities = read.await.ok().flatten()?;
    serde_json::to_value(capabilities).ok()
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
