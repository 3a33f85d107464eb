//! Creating, changing and deleting plugins.

use super::access::{
    PluginWriter, admit, admit_to_delete, changeable, found, global_needs_operator,
    must_have_feature_of, own_plugin,
};
use super::audit::{audit_change, differences, type_name};
use super::family::set_capabilities;
use super::fields::{NewPlugin, PluginFields, fit_together};
use super::files::{self, ChangedFile};
use super::release::ParsedRelease;
use super::shared::{mark_withdrawn, must_be_used_by_owner_only, must_not_be_global};
use super::source_url::{check_url, without_secrets};
use super::{PluginView, Plugins};
use millrace_catalog::entities::plugins;
use millrace_catalog::limits::must_be_within_setting;
use millrace_catalog::transaction::Abort;
use millrace_catalog::{Activity, ChangeError, Patch, StoredJson, is_duplicate};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter,
};
use serde_json::json;
use std::mem;

impl Plugins<'_> {
    /// Creates a plugin; with a release, installs it.
    ///
    /// # Errors
    ///
    /// No right to write, a bad field, a release that cannot be installed, an address that the
    /// organization has a plugin of, a global plugin without the operator's power, or
    /// [`ChangeError::FeatureMissing`] for a destination or a transformation.
    pub async fn create(
        self,
        writer: PluginWriter<'_>,
        new: NewPlugin,
    ) -> Result<PluginView, ChangeError> {
        new.fields.check()?;
        new.url.as_deref().map_or(Ok(()), check_url)?;
        if new.fields.is_global == Patch::Value(true) && !writer.is_operator {
            return Err(global_needs_operator());
        }
        let installed = self.prepare(writer, new.release).await?;
        let transaction = self.catalog.begin().await?;
        let made = async {
            admit(&transaction, writer).await?;
            let own = plugins::Column::OrganizationId.eq(writer.organization_id);
            let had = plugins::Entity::find()
                .filter(own)
                .count(&transaction)
                .await?;
            must_be_within_setting(
                "plugins",
                "plugins_max",
                had,
                self.catalog.limits().plugins_max,
            )?;
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
                let (files, now) = (installed.files(), self.catalog.now());
                let touched = files::differing(&[], files);
                files::write(&transaction, plugin.id, files, &touched, now).await?;
            }
            let audit = audit_change(Activity::Installed, &plugin)
                .field("name", (), &plugin.name)
                .field("plugin_type", (), plugin.plugin_type.map(type_name))
                .field("url", (), plugin.url.as_deref().map(without_secrets))
                .field("tag", (), &plugin.tag)
                .field("is_global", (), plugin.is_global);
            self.catalog
                .record(&transaction, writer.actor, audit)
                .await?;
            found(&transaction, writer.for_all_families(), plugin.id).await
        };
        let made = made.await;
        self.catalog.finish(transaction, made).await
    }

    /// Changes the given fields of a plugin. One that is global no more is gone for other
    /// organizations; `cleanup` removes it from their projects, as their logs say.
    ///
    /// # Errors
    ///
    /// No right to write, no such plugin, another organization's, a bad field, a global plugin
    /// without the operator's power, or [`ChangeError::FeatureMissing`] if it is a destination or a
    /// transformation then.
    pub async fn update(
        self,
        writer: PluginWriter<'_>,
        id: i64,
        fields: PluginFields,
    ) -> Result<PluginView, ChangeError> {
        fields.check()?;
        let transaction = self.catalog.begin().await?;
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
            found(&transaction, writer.for_all_families(), id).await
        };
        let changed = changed.await;
        self.catalog.finish(transaction, changed).await
    }

    /// Deletes a plugin with its files and its uses.
    ///
    /// # Errors
    ///
    /// No right to write, no such plugin, another organization's, a global one, which others may
    /// use, or [`ChangeError::Unavailable`] for a withdrawn one that others have still.
    pub async fn delete(self, writer: PluginWriter<'_>, id: i64) -> Result<(), ChangeError> {
        let transaction = self.catalog.begin().await?;
        let deleted = async {
            admit_to_delete(&transaction, writer).await?;
            let view = found(&transaction, writer, id).await?;
            // Others see a global plugin, and are told the same.
            must_not_be_global(&view.plugin)?;
            let plugin = own_plugin(&transaction, writer, id).await?;
            must_be_used_by_owner_only(&transaction, &plugin).await?;
            plugins::Entity::delete_by_id(id).exec(&transaction).await?;
            let audit = audit_change(Activity::Uninstalled, &plugin);
            self.catalog
                .record(&transaction, writer.actor, audit)
                .await?;
            Ok(())
        };
        let deleted = deleted.await;
        self.catalog.finish(transaction, deleted).await
    }

    fn new_plugin(
        self,
        writer: PluginWriter<'_>,
        fields: PluginFields,
        url: Option<String>,
        installed: Option<&ParsedRelease>,
    ) -> plugins::Model {
        let now = self.catalog.now();
        let mut plugin = plugins::Model {
            // The database numbers it.
            id: 0,
            organization_id: writer.organization_id,
            plugin_type: None,
            name: None,
            description: None,
            url,
            icon: None,
            config_schema: StoredJson(json!({})),
            tag: None,
            latest_tag: None,
            is_global: fields.is_global == Patch::Value(true),
            capabilities: StoredJson(json!({})),
            metrics: Some(StoredJson(json!({}))),
            public_jobs: Some(StoredJson(json!({}))),
            is_destination: false,
            is_frontend_app: false,
            is_import_app: false,
            is_transformation: false,
            created_at: now,
            updated_at: now,
        };
        let said = fields.capabilities.clone().sent();
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

    /// Sets the given fields; refuses `is_global` of a writer who may not change it.
    pub(super) fn with_fields(
        writer: PluginWriter<'_>,
        before: &plugins::Model,
        mut fields: PluginFields,
        has_source: bool,
    ) -> Result<plugins::Model, ChangeError> {
        let mut after = before.clone();
        if let Patch::Value(is_global) = fields.is_global
            && is_global != before.is_global
        {
            if !writer.is_operator {
                return Err(global_needs_operator());
            }
            after.is_global = is_global;
        }
        let capabilities = mem::take(&mut fields.capabilities).sent();
        if let Some(capabilities) = capabilities.filter(|_| !has_source) {
            set_capabilities(&mut after, capabilities);
        }
        fields.apply(&mut after);
        Ok(after)
    }

    /// Writes a changed plugin and its audit entry; nothing if no field and no file differs.
    /// `files` were written already.
    pub(super) async fn save(
        self,
        within: &DatabaseTransaction,
        writer: PluginWriter<'_>,
        before: &plugins::Model,
        mut after: plugins::Model,
        files: Vec<ChangedFile>,
    ) -> Result<(), Abort> {
        fit_together(Some(before), &after)?;
        let mut audit = differences(before, &after);
        for file in files {
            audit = audit.field(&file.name, file.before, file.after);
        }
        if audit.changes_nothing() {
            return Ok(());
        }
        if before.is_global && !after.is_global {
            mark_withdrawn(within, after.id).await?;
        }
        after.updated_at = self.catalog.now();
        after.into_active_model().reset_all().update(within).await?;
        self.catalog.record(within, writer.actor, audit).await?;
        Ok(())
    }
}

fn url_taken(error: DbErr) -> Abort {
    if is_duplicate(&error) {
        let detail = "the organization has a plugin with this address already";
        ChangeError::invalid("url", "unique", detail).into()
    } else {
        error.into()
    }
}
