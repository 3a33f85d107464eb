//! Configurations of plugins in projects.

use super::access::{PluginWriter, admit, found_for_change};
use super::config_secrets::{masked, secret_from_now_on};
use super::fields::fits;
use super::{PluginFamily, PluginView, named, used_by, visible};
use crate::activity::{Activity, ActivityScope, AuditChange};
use crate::catalog::Catalog;
use crate::entities::{plugin_configs as configs, plugins, projects};
use crate::error::{CatalogError, ChangeError};
use crate::page::{Page, PageRequest};
use crate::transaction::{Abort, locked};
use millrace_rows::ProjectId;
use sea_orm::prelude::{Json, Uuid};
use sea_orm::sea_query::{ExprTrait, SelectStatement};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, JoinType,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select,
};

/// Plugin with its configuration in a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginUse {
    /// Row of the configuration.
    pub config: configs::Model,
    /// Plugin as the organization sees it.
    pub view: PluginView,
}

impl PluginUse {
    /// Values by their keys, with secrets masked. Only this form of the values may be shown.
    #[must_use]
    pub fn shown_config(&self) -> Json {
        masked(&self.config, &self.view.plugin.config_schema)
    }
}

/// Input for the configuration of a plugin in a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSetting {
    /// True if the plugin runs.
    pub enabled: bool,
    /// Position among the project's plugins, from 1.
    pub position: i32,
    /// Values for the plugin's schema, an object.
    pub config: Json,
}

impl Catalog {
    /// Page of the enabled plugins that send events out of an organization's projects, oldest use
    /// first: neither frontend apps nor global transformations.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list_exporting_plugins(
        &self,
        organization_id: Uuid,
        family: PluginFamily,
        page: PageRequest,
    ) -> Result<Page<PluginUse>, CatalogError> {
        let found = self.exporting(organization_id, family, page).await;
        found.map_err(|error| self.error(&error))
    }

    async fn exporting(
        &self,
        organization_id: Uuid,
        family: PluginFamily,
        page: PageRequest,
    ) -> Result<Page<PluginUse>, DbErr> {
        let global_transformation = plugins::Column::IsGlobal
            .eq(true)
            .and(plugins::Column::IsTransformation.eq(true));
        let ids = visible(organization_id, family)
            .filter(plugins::Column::Id.in_subquery(used_by(organization_id, Some(true))))
            .filter(plugins::Column::IsFrontendApp.eq(false))
            .filter(global_transformation.not())
            .select_only()
            .column(plugins::Column::Id);
        let plugin = configs::Entity::belongs_to(plugins::Entity)
            .from(configs::Column::PluginId)
            .to(plugins::Column::Id);
        let query = configs::Entity::find()
            .filter(configs::Column::Enabled.eq(true))
            .filter(configs::Column::TeamId.in_subquery(project_ids_of(organization_id)))
            .filter(configs::Column::PluginId.in_subquery(ids.into_query()));
        let count = query.clone().count(&self.db).await?;
        let found = query
            .join(JoinType::InnerJoin, plugin.into())
            .select_also(plugins::Entity)
            .order_by_asc(configs::Column::Id)
            .offset(page.offset)
            .limit(page.limit)
            .all(&self.db)
            .await?;
        let (uses, used): (Vec<_>, Vec<_>) = found
            .into_iter()
            .filter_map(|(config, plugin)| Some((config, plugin?)))
            .unzip();
        let view = named(&self.db, used).await?;
        let rows = uses
            .into_iter()
            .zip(view)
            .map(|(config, view)| PluginUse { config, view });
        Ok(Page {
            count,
            rows: rows.collect(),
        })
    }

    /// Sets the configuration of a plugin in a project of the organization.
    ///
    /// # Errors
    ///
    /// No right to write, no such plugin or project, or values that are no object or too long.
    pub async fn set_plugin_use(
        &self,
        writer: PluginWriter<'_>,
        plugin_id: i64,
        project_id: ProjectId,
        setting: PluginSetting,
    ) -> Result<configs::Model, ChangeError> {
        if !setting.config.is_object() {
            let detail = "config must be an object";
            return Err(ChangeError::invalid("config", "invalid_input", detail));
        }
        fits("config", &setting.config)?;
        let transaction = self.begin().await?;
        let set = async {
            admit(&transaction, writer).await?;
            let view = found_for_change(&transaction, writer, plugin_id).await?;
            let project =
                projects_of(writer.organization_id).filter(projects::Column::Id.eq(project_id.0));
            // Makes changes of configurations in one project queue up.
            if locked(&transaction, project)
                .one(&transaction)
                .await?
                .is_none()
            {
                return Err(ChangeError::not_found("project", &project_id).into());
            }
            self.set_use(&transaction, writer, &view, project_id, setting)
                .await
        };
        let set = set.await;
        self.finish(transaction, set).await
    }

    async fn set_use(
        &self,
        within: &DatabaseTransaction,
        writer: PluginWriter<'_>,
        view: &PluginView,
        project_id: ProjectId,
        setting: PluginSetting,
    ) -> Result<configs::Model, Abort> {
        let before = configs::Entity::find()
            .filter(configs::Column::TeamId.eq(project_id.0))
            .filter(configs::Column::PluginId.eq(view.plugin.id))
            .one(within)
            .await?;
        let now = self.now();
        let schema = &view.plugin.config_schema;
        let secret_keys = secret_from_now_on(schema, &setting.config, before.as_ref());
        let mut row = configs::ActiveModel {
            enabled: ActiveValue::Set(setting.enabled),
            position: ActiveValue::Set(setting.position),
            config: ActiveValue::Set(setting.config),
            secret_keys: ActiveValue::Set(Some(secret_keys)),
            updated_at: ActiveValue::Set(now),
            ..Default::default()
        };
        let after = if let Some(before) = &before {
            row.id = ActiveValue::Unchanged(before.id);
            row.update(within).await?
        } else {
            row.plugin_id = ActiveValue::Set(view.plugin.id);
            row.team_id = ActiveValue::Set(project_id.0);
            row.created_at = ActiveValue::Set(now);
            row.insert(within).await?
        };
        let activity = match &before {
            Some(before) if before.enabled == after.enabled => Activity::ConfigUpdated,
            _ if after.enabled => Activity::Enabled,
            _ => Activity::Disabled,
        };
        let name = view.plugin.name.as_deref().unwrap_or_default();
        let scope = ActivityScope::PluginConfig;
        // The values stay out of the log: only the plugin knows which of them are secrets.
        let audit = AuditChange::new(activity, scope, writer.organization_id, &after.id, name)
            .field(
                "enabled",
                before.as_ref().map(|before| before.enabled),
                after.enabled,
            )
            .field(
                "order",
                before.as_ref().map(|before| before.position),
                after.position,
            );
        self.record(within, writer.actor, audit).await?;
        Ok(after)
    }
}

fn projects_of(organization_id: Uuid) -> Select<projects::Entity> {
    projects::Entity::find().filter(projects::Column::OrganizationId.eq(organization_id))
}

fn project_ids_of(organization_id: Uuid) -> SelectStatement {
    projects_of(organization_id)
        .select_only()
        .column(projects::Column::Id)
        .into_query()
}
