//! Installing what a catalogue offers.

use super::SeenPlugin;
use super::access::{PluginWriter, changeable, found, found_for_change, must_have_feature_of};
use super::fields::{PluginFields, PluginRelease, check_text};
use super::files::{
    PLUGIN_FILES_MAX, PLUGIN_SOURCE_BYTES_MAX, blame_instead, bytes_of, check_file, differing,
    read, write,
};
use super::write::set_capabilities;
use crate::catalog::Catalog;
use crate::entities::plugins;
use crate::error::ChangeError;
use crate::level::Level;
use crate::transaction::{lock_organization, must_act_as};
use sea_orm::prelude::Json;

/// A release whose source was read.
pub(super) struct Installed {
    release: PluginRelease,
    capabilities: Option<Json>,
}

impl Installed {
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

/// Holds a release to what holds for people's plugins.
fn check(release: &PluginRelease) -> Result<(), ChangeError> {
    let fields = PluginFields {
        name: Some(Some(release.name.clone())),
        description: Some(release.description.clone()),
        icon: Some(release.icon.clone()),
        config_schema: Some(release.config_schema.clone()),
        tag: Some(Some(release.tag.clone())),
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

impl Catalog {
    /// Reads a release; the address is blamed for one that cannot be installed.
    pub(super) async fn prepare(
        &self,
        writer: PluginWriter<'_>,
        release: Option<PluginRelease>,
    ) -> Result<Option<Installed>, ChangeError> {
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
            .map_err(|error| blame_instead("url", "what the catalogue has there", error))?;
        Ok(Some(Installed {
            release,
            capabilities,
        }))
    }

    /// Replaces a plugin's source by a release, if there is one; what else is given wins over
    /// what the release says.
    ///
    /// # Errors
    ///
    /// As [`Catalog::update_plugin`], or a release that cannot be installed.
    pub async fn upgrade_plugin(
        &self,
        writer: PluginWriter<'_>,
        id: i64,
        fields: PluginFields,
        release: Option<PluginRelease>,
    ) -> Result<SeenPlugin, ChangeError> {
        fields.check()?;
        let installed = self.prepare(writer, release).await?;
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
                let files = installed.files();
                write(&transaction, id, files, &touched, self.now()).await?;
            }
            let after = Self::with_fields(writer, &released, fields, has_source)?;
            must_have_feature_of(&transaction, &after).await?;
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
    /// No such plugin, a bad tag, or what the database says.
    pub async fn set_plugin_latest_tag(
        &self,
        writer: PluginWriter<'_>,
        id: i64,
        latest_tag: Option<String>,
    ) -> Result<SeenPlugin, ChangeError> {
        check_text("latest_tag", latest_tag.as_deref())?;
        let transaction = self.begin().await?;
        let changed = async {
            let here = writer.organization_id;
            lock_organization(&transaction, here).await?;
            // Whoever may look may have this looked up.
            must_act_as(&transaction, writer.actor, here, Level::Member).await?;
            let mut seen = found_for_change(&transaction, writer, id).await?;
            let before = seen.plugin.clone();
            seen.plugin.latest_tag = latest_tag;
            if before.organization_id == here {
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
