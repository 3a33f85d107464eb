//! Changing the source of a plugin, and the fields that follow from it.

use super::Plugins;
use super::access::{PluginWriter, changeable, found, may_change, must_have_feature_of};
use super::capabilities::{MANIFEST, SourceParseError, main_file};
use super::family::set_capabilities;
use super::fields::{PluginFields, fits};
use super::files::{
    ChangedFile, FileChange, PLUGIN_FILES_MAX, PLUGIN_SOURCE_BYTES_MAX, PluginFiles, bytes_of,
    check_file, differing, field_error, field_error_from, read, source_bytes, write,
};
use millrace_catalog::ChangeError;
use millrace_catalog::bounded_json::{self, JsonError};
use millrace_catalog::transaction::Abort;
use sea_orm::DatabaseTransaction;
use sea_orm::prelude::{Json, Uuid};
use serde_json::{Value, json};

/// Most attempts of a change that loses against concurrent ones.
const REVISIONS_MAX: usize = 5;

impl Plugins<'_> {
    /// Changes fields and files. `plugin.json` sets the name and the schema of the configuration;
    /// the main file determines the capabilities.
    ///
    /// # Errors
    ///
    /// Those of [`Plugins::update`]; a bad name of a file, or more files or bytes than
    /// [`PLUGIN_FILES_MAX`] and [`PLUGIN_SOURCE_BYTES_MAX`]; a manifest that sets a bad field; a
    /// main file that cannot be parsed.
    pub async fn update_source(
        self,
        writer: PluginWriter<'_>,
        id: i64,
        fields: PluginFields,
        changes: Vec<FileChange>,
    ) -> Result<PluginFiles, ChangeError> {
        fields.check()?;
        for _ in 0..REVISIONS_MAX {
            let revision = self.revision(writer, id, &changes).await?;
            let transaction = self.catalog.begin().await?;
            let saved = self.save_revision(&transaction, writer, id, &fields, (revision, &changes));
            let saved = saved.await;
            // A concurrent change won: parse the source again outside of a transaction, without
            // locks.
            if let Some(changed) = self.catalog.finish(transaction, saved).await? {
                return Ok(changed);
            }
        }
        let detail = "others keep changing this source at the same time; try again";
        Err(ChangeError::Unavailable(detail.to_owned()))
    }

    /// Saves a revision; `None` if another main file would have to be parsed first.
    async fn save_revision(
        self,
        within: &DatabaseTransaction,
        writer: PluginWriter<'_>,
        id: i64,
        fields: &PluginFields,
        (revision, changes): (Revision, &[FileChange]),
    ) -> Result<Option<PluginFiles>, Abort> {
        let before = changeable(within, writer, id).await?;
        let Some(revision) = revision.rebased(read(within, id).await?, changes)? else {
            return Ok(None);
        };
        let has_source = !revision.new.is_empty();
        let mut after = Self::with_fields(writer, &before, fields.clone(), has_source)?;
        revision.manifest.apply(&mut after);
        if let Some(capabilities) = revision.capabilities {
            set_capabilities(&mut after, capabilities);
        }
        must_have_feature_of(within, &after).await?;
        let (files, touched) = (revision.new, revision.touched);
        write(within, id, &files, &touched, self.catalog.now()).await?;
        self.save(within, writer, &before, after, touched).await?;
        let view = found(within, writer.for_all_families(), id).await?;
        Ok(Some(PluginFiles { view, files }))
    }

    /// Computes the revision of the present source, without locks.
    async fn revision(
        self,
        writer: PluginWriter<'_>,
        id: i64,
        changes: &[FileChange],
    ) -> Result<Revision, ChangeError> {
        let now = self.files(writer.organization_id, writer.family, id);
        let now = now.await?;
        let now = now.ok_or_else(|| ChangeError::not_found("plugin", &id))?;
        may_change(writer, &now.view.plugin)?;
        let new = merged(&now.files, changes)?;
        let old = now.files;
        let touched = differing(&old, &new);
        let manifest = manifest_fields(&new, &touched)?;
        // An unchanged main file need not be parsed again.
        let capabilities = if main_file(&old) == main_file(&new) {
            None
        } else {
            self.capabilities_of(writer.organization_id, &new).await?
        };
        Ok(Revision {
            old,
            new,
            touched,
            manifest,
            capabilities,
        })
    }

    /// Capabilities by the main file of a source; `None` without a main file.
    pub(super) async fn capabilities_of(
        self,
        organization_id: Uuid,
        files: &[(String, String)],
    ) -> Result<Option<Json>, ChangeError> {
        let Some((name, text)) = main_file(files) else {
            return Ok(None);
        };
        let none =
            || ChangeError::Unavailable("this process reads no sources of plugins".to_owned());
        let parser = self.parser.ok_or_else(none)?;
        let read = parser.parse(organization_id, text.to_owned());
        let capabilities = read.await.map_err(|error| match error {
            SourceParseError::TooComplex => {
                let detail = format!(
                    "{error}; make the file smaller, or bundle it another way (formatted code is \
                     easier to read than what a minifier leaves)"
                );
                field_error(name, "invalid_input", detail)
            }
            SourceParseError::Mistake { .. } => {
                field_error(name, "invalid_input", error.to_string())
            }
            SourceParseError::Unavailable(_) => ChangeError::Unavailable(error.to_string()),
        })?;
        let capabilities = json!(capabilities);
        let fit = fits("capabilities", &capabilities);
        fit.map_err(|error| field_error_from(name, "what this can do", error))?;
        Ok(Some(capabilities))
    }
}

/// Changed source, and the fields that follow from it.
struct Revision {
    /// Source before the change.
    old: Vec<(String, String)>,
    /// Source after the change.
    new: Vec<(String, String)>,
    /// Files that differ.
    touched: Vec<ChangedFile>,
    /// Fields that a changed manifest sets.
    manifest: PluginFields,
    /// Capabilities by the changed main file; `None`: it did not change, or there is none.
    capabilities: Option<Json>,
}

impl Revision {
    /// Applies the change to another source; `None` if that has a main file that was not parsed.
    fn rebased(
        self,
        old: Vec<(String, String)>,
        changes: &[FileChange],
    ) -> Result<Option<Self>, ChangeError> {
        if old == self.old {
            return Ok(Some(self));
        }
        let new = merged(&old, changes)?;
        let main = main_file(&new);
        let capabilities = if main == main_file(&old) {
            None
        } else if self.capabilities.is_some() && main == main_file(&self.new) {
            self.capabilities
        } else if main.is_none() {
            None
        } else {
            return Ok(None);
        };
        let touched = differing(&old, &new);
        let manifest = manifest_fields(&new, &touched)?;
        Ok(Some(Self {
            old,
            new,
            touched,
            manifest,
            capabilities,
        }))
    }
}

fn merged(
    old: &[(String, String)],
    changes: &[FileChange],
) -> Result<Vec<(String, String)>, ChangeError> {
    let mut files = old.to_vec();
    for FileChange { name, source } in changes {
        // A file with any name can be deleted.
        if let Some(text) = source {
            check_file(name, text)?;
        }
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
        .filter_map(|change| Some((source_bytes(change.source.as_ref()?), &change.name)));
    // Deleting is never refused, nor is shrinking a source that was larger before.
    let bytes = bytes_of(&files);
    if let Some((_, largest)) = written.max()
        && bytes > PLUGIN_SOURCE_BYTES_MAX
        && bytes > bytes_of(old)
    {
        let detail = format!(
            "all files of a plugin may have at most {PLUGIN_SOURCE_BYTES_MAX} bytes as JSON"
        );
        return Err(field_error(largest, "max_length", detail));
    }
    files.sort_unstable();
    Ok(files)
}

/// Fields that a changed manifest sets, validated like those of clients: the name and the schema of
/// the configuration.
fn manifest_fields(
    files: &[(String, String)],
    touched: &[ChangedFile],
) -> Result<PluginFields, ChangeError> {
    let is_touched = touched.iter().any(|file| file.name == MANIFEST);
    let text = files.iter().find(|(name, _)| name == MANIFEST);
    let Some((_, text)) = text.filter(|_| is_touched) else {
        return Ok(PluginFields::default());
    };
    let manifest =
        bounded_json::parse(text.as_bytes(), bounded_json::VALUES_MAX).map_err(|error| {
            let detail = match error {
                JsonError::TooManyValues(_) => format!("{MANIFEST} is too complex: {error}"),
                JsonError::Malformed(_) => format!("{MANIFEST} is not JSON: {error}"),
            };
            field_error(MANIFEST, "invalid_input", detail)
        })?;
    let name = manifest.get("name").and_then(Value::as_str);
    let schema = manifest.get("config").filter(|schema| !schema.is_null());
    let fields = PluginFields {
        name: name.map(|name| Some(name.to_owned())).into(),
        config_schema: schema.cloned().into(),
        ..PluginFields::default()
    };
    let checked = fields.check();
    checked.map_err(|error| field_error_from(MANIFEST, MANIFEST, error))?;
    Ok(fields)
}
