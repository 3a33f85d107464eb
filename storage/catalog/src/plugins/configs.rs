//! How projects use plugins.

use super::access::{PluginWriter, admit, found_for_change};
use super::fields::fits;
use super::masks::secret_from_now_on;
use super::{Family, SeenPlugin, named, used_by, visible};
use crate::activity::{Activity, ActivityScope, Deed};
use crate::catalog::Catalog;
use crate::entities::{plugin_configs as configs, plugins, projects};
use crate::error::{CatalogError, ChangeError};
use crate::page::{Page, PageRequest};
use crate::transaction::{Abort, locked};
use millrace_rows::TeamId;
use sea_orm::prelude::{Json, Uuid};
use sea_orm::sea_query::{ExprTrait, SelectStatement};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, JoinType,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select,
};

/// A plugin as a project uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginUse {
    /// With which configuration.
    pub config: configs::Model,
    /// Which plugin.
    pub seen: SeenPlugin,
}

/// How a project uses a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSetting {
    /// Whether it runs.
    pub enabled: bool,
    /// Its place among the project's plugins, from 1.
    pub position: i32,
    /// Values of what the plugin's schema asks for, an object.
    pub config: Json,
}

impl Catalog {
    /// The plugins that send events somewhere from an organization's projects, oldest use first:
    /// neither plugins for pages nor global transformations.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn list_exporting_plugins(
        &self,
        organization_id: Uuid,
        family: Family,
        page: PageRequest,
    ) -> Result<Page<PluginUse>, CatalogError> {
        let found = self.exporting(organization_id, family, page).await;
        found.map_err(|error| self.error(&error))
    }

    async fn exporting(
        &self,
        organization_id: Uuid,
        family: Family,
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
            .filter(configs::Column::TeamId.in_subquery(team_ids_of(organization_id)))
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
        let seen = named(&self.db, used).await?;
        let rows = uses
            .into_iter()
            .zip(seen)
            .map(|(config, seen)| PluginUse { config, seen });
        Ok(Page {
            count,
            rows: rows.collect(),
        })
    }

    /// Sets how a project of the organization uses a plugin that it sees.
    ///
    /// # Errors
    ///
    /// No right to write, no such plugin or project, or values that are no object or too long.
    pub async fn set_plugin_use(
        &self,
        writer: PluginWriter<'_>,
        plugin_id: i64,
        team_id: TeamId,
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
            let seen = found_for_change(&transaction, writer, plugin_id).await?;
            let project =
                teams_of(writer.organization_id).filter(projects::Column::Id.eq(team_id.0));
            // Makes those who set uses in one project queue up.
            if locked(&transaction, project)
                .one(&transaction)
                .await?
                .is_none()
            {
                return Err(ChangeError::not_found("project", &team_id).into());
            }
            self.set_use(&transaction, writer, &seen, team_id, setting)
                .await
        };
        let set = set.await;
        self.finish(transaction, set).await
    }

    async fn set_use(
        &self,
        within: &DatabaseTransaction,
        writer: PluginWriter<'_>,
        seen: &SeenPlugin,
        team_id: TeamId,
        setting: PluginSetting,
    ) -> Result<configs::Model, Abort> {
        let before = configs::Entity::find()
            .filter(configs::Column::TeamId.eq(team_id.0))
            .filter(configs::Column::PluginId.eq(seen.plugin.id))
            .one(within)
            .await?;
        let now = self.now();
        let schema = &seen.plugin.config_schema;
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
            row.plugin_id = ActiveValue::Set(seen.plugin.id);
            row.team_id = ActiveValue::Set(team_id.0);
            row.created_at = ActiveValue::Set(now);
            row.insert(within).await?
        };
        let activity = match &before {
            Some(before) if before.enabled == after.enabled => Activity::ConfigUpdated,
            _ if after.enabled => Activity::Enabled,
            _ => Activity::Disabled,
        };
        let name = seen.plugin.name.as_deref().unwrap_or_default();
        let scope = ActivityScope::PluginConfig;
        // The values stay out of the log: which of them are secrets is the plugin's to say.
        let deed = Deed::new(activity, scope, writer.organization_id, &after.id, name)
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
        self.record(within, writer.actor, deed).await?;
        Ok(after)
    }
}

fn teams_of(organization_id: Uuid) -> Select<projects::Entity> {
    projects::Entity::find().filter(projects::Column::OrganizationId.eq(organization_id))
}

fn team_ids_of(organization_id: Uuid) -> SelectStatement {
    teams_of(organization_id)
        .select_only()
        .column(projects::Column::Id)
        .into_query()
}
