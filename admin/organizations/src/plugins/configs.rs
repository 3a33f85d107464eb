//! Configurations of plugins in projects. They are listed only: no operation writes one.

use super::config_secrets::masked;
use super::{PluginFamily, PluginView, Plugins, named, used_by, visible};
use millrace_catalog::entities::{plugin_configs as configs, plugins, projects};
use millrace_catalog::{CatalogError, Page, PageRequest};
use sea_orm::prelude::{Json, Uuid};
use sea_orm::sea_query::{ExprTrait, SelectStatement};
use sea_orm::{
    ColumnTrait, DbErr, EntityTrait, JoinType, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, QueryTrait,
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

impl Plugins<'_> {
    /// Page of the enabled plugins that send events out of an organization's projects, oldest use
    /// first: neither frontend apps nor global transformations.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list_exporting(
        self,
        organization_id: Uuid,
        family: PluginFamily,
        page: PageRequest,
    ) -> Result<Page<PluginUse>, CatalogError> {
        let found = self.exporting(organization_id, family, page).await;
        found.map_err(|error| self.catalog.error(&error))
    }

    async fn exporting(
        self,
        organization_id: Uuid,
        family: PluginFamily,
        page: PageRequest,
    ) -> Result<Page<PluginUse>, DbErr> {
        let global_transformation = plugins::Column::IsGlobal
            .eq(true)
            .and(plugins::Column::IsTransformation.eq(true));
        let ids = visible(organization_id, family)
            .filter(plugins::Column::Id.in_subquery(used_by(organization_id)))
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
        let count = query.clone().count(self.catalog.reader()).await?;
        let found = query
            .join(JoinType::InnerJoin, plugin.into())
            .select_also(plugins::Entity)
            .order_by_asc(configs::Column::Id)
            .offset(page.offset)
            .limit(page.limit)
            .all(self.catalog.reader())
            .await?;
        let (uses, used): (Vec<_>, Vec<_>) = found
            .into_iter()
            .filter_map(|(config, plugin)| Some((config, plugin?)))
            .unzip();
        let view = named(self.catalog.reader(), used).await?;
        let rows = uses
            .into_iter()
            .zip(view)
            .map(|(config, view)| PluginUse { config, view });
        Ok(Page {
            count,
            rows: rows.collect(),
        })
    }
}

fn project_ids_of(organization_id: Uuid) -> SelectStatement {
    projects::Entity::find()
        .filter(projects::Column::OrganizationId.eq(organization_id))
        .select_only()
        .column(projects::Column::Id)
        .into_query()
}
