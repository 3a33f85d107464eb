//! Installing and upgrading releases of a catalogue.

use super::access::{PluginWriter, changeable, found, found_for_change, must_have_feature_of};
use super::family::set_capabilities;
use super::fields::{PluginFields, PluginRelease, check_text};
use super::files::{
    PLUGIN_FILES_MAX, PLUGIN_SOURCE_BYTES_MAX, bytes_of, check_file, differing, field_error_from,
    read, write,
};
use super::{PluginView, Plugins};
use millrace_catalog::entities::plugins;
use millrace_catalog::transaction::{lock_organization, must_act_as};
use millrace_catalog::{ChangeError, Level, Patch, StoredJson};
use sea_orm::prelude::Json;

/// Release whose source was parsed.
pub(super) struct ParsedRelease {
    release: PluginRelease,
    capabilities: Option<Json>,
}

impl ParsedRelease {
    /// Sets the release's fields of a plugin.
    pub(super) fn apply(&self, plugin: &mut plugins::Model) {
        let release = &self.release;
        plugin.name = Some(release.name.clone());
        // Fields that the release lacks keep their values.
        plugin.description = release.description.clone().or(plugin.description.take());
        plugin.icon = release.icon.clone().or(plugin.icon.take());
        plugin.tag = Some(release.tag.clone());
        plugin.latest_tag = Some(release.tag.clone());
        plugin.config_schema = StoredJson(release.config_schema.clone());
        if let Some(capabilities) = &self.capabilities {
            set_capabilities(plugin, capabilities.clone());
        }
    }

    pub(super) fn files(&self) -> &[(String, String)] {
        &self.release.files
    }
}

/// Validates a release by the rules of plugins.
fn check(release: &PluginRelease) -> Result<(), ChangeError> {
    let fields = PluginFields {
        name: Patch::Value(Some(release.name.clone())),
        description: Patch::Value(release.description.clone()),
        icon: Patch::Value(release.icon.clone()),
        config_schema: Patch::Value(release.config_schema.clone()),
        tag: Patch::Value(Some(release.tag.clone())),
        ..PluginFields::default()
    };
    fields.check()?;
    for (name, text) in &release.files {
        check_file(name, text)?;
    }
    let files = &release.files;
    if files.len() > PLUGIN_FILES_MAX || bytes_of(files) > PLUGIN_SOURCE_BYTES_MAX {
        let detail = format!(
            "a plugin may have at most {PLUGIN_FILES_MAX} files and {PLUGIN_SOURCE_BYTES_MAX} \
             bytes as JSON in all of them"
        );
        return Err(ChangeError::invalid(None, "max_length", detail));
    }
    Ok(())
}

impl Plugins<'_> {
    /// Validates and parses a release; errors name the address.
    pub(super) async fn prepare(
        self,
        writer: PluginWriter<'_>,
        release: Option<PluginRelease>,
    ) -> Result<Option<ParsedRelease>, ChangeError> {
        let Some(release) = release else {
            return Ok(None);
        };
        let checked = async {
            check(&release)?;
            let files = &release.files;
            self.capabilities_of(writer.organization_id, files).await
        };
        let capabilities = checked
            .await
            .map_err(|error| field_error_from("url", "what the catalogue has there", error))?;
        Ok(Some(ParsedRelease {
            release,
            capabilities,
        }))
    }

    /// Replaces a plugin's source by a release, if there is one; given fields win over those of the
    /// release.
    ///
    /// # Errors
    ///
    /// Those of [`Plugins::update`], or a release that cannot be installed.
    pub async fn upgrade(
        self,
        writer: PluginWriter<'_>,
        id: i64,
        fields: PluginFields,
        release: Option<PluginRelease>,
    ) -> Result<PluginView, ChangeError> {
        fields.check()?;
        let installed = self.prepare(writer, release).await?;
        let transaction = self.catalog.begin().await?;
        let upgraded = async {
            let before = changeable(&transaction, writer, id).await?;
            let old = read(&transaction, id).await?;
            let has_source = !old.is_empty() || installed.is_some();
            let mut released = before.clone();
            let mut touched = Vec::new();
            if let Some(installed) = &installed {
                installed.apply(&mut released);
                touched = differing(&old, installed.files());
                let files = installed.files();
                write(&transaction, id, files, &touched, self.catalog.now()).await?;
            }
            let after = Self::with_fields(writer, &released, fields, has_source)?;
            must_have_feature_of(&transaction, &after).await?;
            self.save(&transaction, writer, &before, after, touched)
                .await?;
            found(&transaction, writer.for_all_families(), id).await
        };
        let upgraded = upgraded.await;
        self.catalog.finish(transaction, upgraded).await
    }

    /// Stores the newest version in the catalogue; for another organization's plugin it is only
    /// returned.
    ///
    /// # Errors
    ///
    /// No such plugin, a bad tag, or any database error.
    pub async fn set_latest_tag(
        self,
        writer: PluginWriter<'_>,
        id: i64,
        latest_tag: Option<String>,
    ) -> Result<PluginView, ChangeError> {
        check_text("latest_tag", latest_tag.as_deref())?;
        let transaction = self.catalog.begin().await?;
        let changed = async {
            let here = writer.organization_id;
            lock_organization(&transaction, here).await?;
            // Reading the plugin is enough for this.
            must_act_as(&transaction, writer.actor, here, Level::Member).await?;
            let mut view = found_for_change(&transaction, writer, id).await?;
            let before = view.plugin.clone();
            view.plugin.latest_tag = latest_tag;
            if before.organization_id == here {
                let after = view.plugin.clone();
                self.save(&transaction, writer, &before, after, Vec::new())
                    .await?;
            }
            Ok(view)
        };
        let changed = changed.await;
        self.catalog.finish(transaction, changed).await
    }
}
