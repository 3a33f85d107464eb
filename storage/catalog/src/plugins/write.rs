//! Creating, changing and deleting plugins.

use super::SeenPlugin;
use super::access::{
    PluginWriter, admit, admit_to_delete, changeable, found, global_needs_operator,
    must_have_feature_of, own_plugin,
};
use super::address::{check_url, without_secrets};
use super::family::Seen;
use super::fields::{PluginFields, PluginRelease, fit_together};
use super::files::{self, ChangedFile};
use super::log::{deed, differences, type_name};
use super::release::Installed;
use crate::activity::Activity;
use crate::catalog::Catalog;
use crate::entities::plugins;
use crate::error::{ChangeError, is_duplicate};
use crate::limits::must_have_room;
use crate::transaction::Abort;
use sea_orm::prelude::Json;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter,
};
use serde_json::json;

/// What a new plugin needs; everything may be left out.
#[derive(Clone, Debug, Default)]
pub struct NewPlugin {
    /// What the client says.
    pub fields: PluginFields,
    /// Where the catalogue has it.
    pub url: Option<String>,
    /// What the catalogue has there.
    pub release: Option<PluginRelease>,
}

impl Catalog {
    /// Makes a plugin; with a release, installs it.
    ///
    /// # Errors
    ///
    /// No right to write, a bad field, a release that cannot be installed, an address that the
    /// organization has a plugin of, a global plugin without the operator's power, or
    /// [`ChangeError::FeatureMissing`] for a destination or a transformation.
    pub async fn create_plugin(
        &self,
        writer: PluginWriter<'_>,
        new: NewPlugin,
    ) -> Result<SeenPlugin, ChangeError> {
        new.fields.check()?;
        new.url.as_deref().map_or(Ok(()), check_url)?;
        if new.fields.is_global == Some(true) && !writer.is_operator {
            return Err(global_needs_operator());
        }
        let installed = self.prepare(writer, new.release).await?;
        let transaction = self.begin().await?;
        let made = async {
            admit(&transaction, writer).await?;
            let own = plugins::Column::OrganizationId.eq(writer.organization_id);
            let had = plugins::Entity::find()
                .filter(own)
                .count(&transaction)
                .await?;
            must_have_room("plugins", "plugins_max", had, self.limits.plugins_max)?;
            let plugin = self.new_plugin(writer, new.fields, new.url, installed.as_ref());
            must_have_feature_of(&transaction, &plugin).await?;
            fit_together(None, &plugin)?;
            let mut row = plugin.into_active_model().reset_all();
            row.id = ActiveValue::NotSet;
            let plugin = plugins::Entity::insert(row)
                .exec_with_returning(&transaction)
                .await
                .map_err(url_taken)?;
            if let Some(installed) = &installed {
                let (files, now) = (installed.files(), self.now());
                let touched = files::differing(&[], files);
                files::write(&transaction, plugin.id, files, &touched, now).await?;
            }
            let deed = deed(Activity::Installed, &plugin)
                .field("name", (), &plugin.name)
                .field("plugin_type", (), plugin.plugin_type.map(type_name))
                .field("url", (), plugin.url.as_deref().map(without_secrets))
                .field("tag", (), &plugin.tag)
                .field("is_global", (), plugin.is_global);
            self.record(&transaction, writer.actor, deed).await?;
            found(&transaction, writer.anywhere(), plugin.id).await
        };
        let made = made.await;
        self.finish(transaction, made).await
    }

    /// Changes the fields that are given.
    ///
    /// # Errors
    ///
    /// No right to write, no such plugin, another's, a bad field, a global plugin without the
    /// operator's power, or [`ChangeError::FeatureMissing`] for what is a destination or a
    /// transformation then.
    pub async fn update_plugin(
        &self,
        writer: PluginWriter<'_>,
        id: i64,
        fields: PluginFields,
    ) -> Result<SeenPlugin, ChangeError> {
        fields.check()?;
        let transaction = self.begin().await?;
        let changed = async {
            let before = changeable(&transaction, writer, id).await?;
            let has_source = files::any(&transaction, id).await?;
            let only_withdraws = fields == PluginFields::withdrawn();
            let after = Self::with_fields(writer, &before, fields, has_source)?;
            if !only_withdraws {
                must_have_feature_of(&transaction, &after).await?;
            }
            self.save(&transaction, writer, &before, after, Vec::new())
                .await?;
            found(&transaction, writer.anywhere(), id).await
        };
        let changed = changed.await;
        self.finish(transaction, changed).await
    }

    /// Deletes a plugin with its files and its uses.
    ///
    /// # Errors
    ///
    /// No right to write, no such plugin, another's, or a global one, which others may use.
    pub async fn delete_plugin(
        &self,
        writer: PluginWriter<'_>,
        id: i64,
    ) -> Result<(), ChangeError> {
        let transaction = self.begin().await?;
        let deleted = async {
            admit_to_delete(&transaction, writer).await?;
            let seen = found(&transaction, writer, id).await?;
            if seen.plugin.is_global {
                let detail = "A global plugin cannot be deleted, as other organizations may use it. \
                     Set is_global to false first.";
                return Err(ChangeError::invalid(None, "invalid_input", detail).into());
            }
            let plugin = own_plugin(&transaction, writer, id).await?;
            plugins::Entity::delete_by_id(id).exec(&transaction).await?;
            let deed = deed(Activity::Uninstalled, &plugin);
            self.record(&transaction, writer.actor, deed).await?;
            Ok(())
        };
        let deleted = deleted.await;
        self.finish(transaction, deleted).await
    }

    fn new_plugin(
        &self,
        writer: PluginWriter<'_>,
        fields: PluginFields,
        url: Option<String>,
        installed: Option<&Installed>,
    ) -> plugins::Model {
        let now = self.now();
        let mut plugin = plugins::Model {
            // The database numbers it.
            id: 0,
            organization_id: writer.organization_id,
            plugin_type: None,
            name: None,
            description: None,
            url,
            icon: None,
            config_schema: json!({}),
            tag: None,
            latest_tag: None,
            is_global: fields.is_global.unwrap_or(false),
            capabilities: json!({}),
            metrics: Some(json!({})),
            public_jobs: Some(json!({})),
            is_destination: false,
            is_frontend_app: false,
            is_import_app: false,
            is_transformation: false,
            created_at: now,
            updated_at: now,
        };
        let said = fields.capabilities.clone();
        set_capabilities(
            &mut plugin,
            said.unwrap_or_else(|| writer.family.default_capabilities()),
        );
        if let Some(installed) = installed {
            installed.apply(&mut plugin);
        }
        fields.apply(&mut plugin);
        plugin
    }

    /// Sets what was given, as far as the writer may.
    pub(super) fn with_fields(
        writer: PluginWriter<'_>,
        before: &plugins::Model,
        mut fields: PluginFields,
        has_source: bool,
    ) -> Result<plugins::Model, ChangeError> {
        let mut after = before.clone();
        if let Some(is_global) = fields.is_global.filter(|now| *now != before.is_global) {
            if !writer.is_operator {
                return Err(global_needs_operator());
            }
            after.is_global = is_global;
        }
        if let Some(capabilities) = fields.capabilities.take().filter(|_| !has_source) {
            set_capabilities(&mut after, capabilities);
        }
        fields.apply(&mut after);
        Ok(after)
    }

    /// Writes what differs, and the entry that says so; `files` were written already.
    pub(super) async fn save(
        &self,
        within: &DatabaseTransaction,
        writer: PluginWriter<'_>,
        before: &plugins::Model,
        mut after: plugins::Model,
        files: Vec<ChangedFile>,
    ) -> Result<(), Abort> {
        fit_together(Some(before), &after)?;
        let mut deed = differences(before, &after);
        for file in files {
            deed = deed.field(&file.name, file.before, file.after);
        }
        if deed.changes_nothing() {
            return Ok(());
        }
        after.updated_at = self.now();
        after.into_active_model().reset_all().update(within).await?;
        self.record(within, writer.actor, deed).await?;
        Ok(())
    }
}

/// Sets what a plugin can do, and with it where it is seen.
pub(super) fn set_capabilities(plugin: &mut plugins::Model, capabilities: Json) {
    let seen = Seen::by(&capabilities);
    plugin.capabilities = capabilities;
    plugin.is_destination = seen.destination;
    plugin.is_frontend_app = seen.frontend_app;
    plugin.is_import_app = seen.import_app;
    plugin.is_transformation = seen.transformation;
}

fn url_taken(error: DbErr) -> Abort {
    if is_duplicate(&error) {
        let detail = "the organization has a plugin with this address already";
        ChangeError::invalid("url", "unique", detail).into()
    } else {
        error.into()
    }
}
