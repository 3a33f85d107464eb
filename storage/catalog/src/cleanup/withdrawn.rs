//! Configurations that other organizations have of withdrawn plugins.

use super::{Cleanup, ENTRIES_MAX, ROWS_MAX};
use crate::activity::{Activity, ActivityScope, AuditChange};
use crate::actor::Actor;
use crate::entities::{
    organizations, plugin_configs as configs, plugins, projects, withdrawn_plugins as withdrawn,
};
use crate::error::{CatalogError, ChangeError};
use crate::transaction::locked;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, JoinType, QueryFilter,
    QueryOrder, QuerySelect, QueryTrait, Select,
};

impl Cleanup<'_> {
    /// Marks a piece of the plugins that are not global and have configurations in other
    /// organizations all the same: at most 2 000. Answers how many; 0: all have their mark.
    ///
    /// A process of an earlier version, which runs beside this one during an upgrade, withdraws
    /// plugins without a mark, and neither they nor their organizations could ever be deleted.
    ///
    /// # Errors
    ///
    /// Any database error; then nothing was marked.
    pub async fn mark_withdrawn_plugins(self) -> Result<u64, CatalogError> {
        let marked = self.mark_unmarked().await;
        marked.map_err(|error| self.0.error(&error))
    }

    async fn mark_unmarked(self) -> Result<u64, DbErr> {
        let marked = withdrawn::Entity::find()
            .select_only()
            .column(withdrawn::Column::PluginId)
            .into_query();
        // Read apart, so that nothing is locked where nothing is missing.
        let unmarked: Vec<i64> = uses_by_others()
            .filter(plugins::Column::IsGlobal.eq(false))
            .filter(configs::Column::PluginId.not_in_subquery(marked))
            .select_only()
            .column(configs::Column::PluginId)
            .distinct()
            .limit(ROWS_MAX)
            .into_tuple()
            .all(&self.0.db)
            .await?;
        if unmarked.is_empty() {
            return Ok(0);
        }
        let count = unmarked.len() as u64;
        let marks = unmarked
            .into_iter()
            .map(|plugin_id| withdrawn::ActiveModel {
                plugin_id: ActiveValue::Set(plugin_id),
            });
        // Withdrawn once more meanwhile. One that is global again loses its mark in the cleanup.
        let mut once = OnConflict::column(withdrawn::Column::PluginId);
        once.do_nothing();
        let marked = withdrawn::Entity::insert_many(marks).on_conflict(once);
        marked.exec_without_returning(&self.0.writer).await?;
        tracing::info!(
            plugins = count,
            "plugins that are not global are used in other organizations: these uses will be deleted"
        );
        Ok(count)
    }

    /// Deletes a piece of the configurations that other organizations have of a withdrawn plugin,
    /// each with an entry in the log; answers how many rows. All are of one organization, so that
    /// no more than one is locked.
    pub(super) async fn delete_of_withdrawn_plugin(self) -> Result<u64, ChangeError> {
        let found = self.withdrawn_plugin().await;
        let Some((plugin_id, user)) = found.map_err(|error| self.0.error(&error))? else {
            return Ok(0);
        };
        let transaction = self.0.begin().await?;
        let deleted = self.withdraw(&transaction, plugin_id, user).await;
        self.0
            .finish(transaction, deleted.map_err(Into::into))
            .await
    }

    /// Finds the first withdrawn plugin, and an organization that still has configurations of it.
    async fn withdrawn_plugin(self) -> Result<Option<(i64, Option<Uuid>)>, DbErr> {
        let first = withdrawn::Entity::find()
            .order_by_asc(withdrawn::Column::PluginId)
            .one(&self.0.db)
            .await?;
        let Some(withdrawn::Model { plugin_id }) = first else {
            return Ok(None);
        };
        let user: Option<Uuid> = uses_by_others()
            .filter(configs::Column::PluginId.eq(plugin_id))
            .select_only()
            .column(projects::Column::OrganizationId)
            .into_tuple()
            .one(&self.0.db)
            .await?;
        Ok(Some((plugin_id, user)))
    }

    async fn withdraw(
        self,
        within: &DatabaseTransaction,
        plugin_id: i64,
        user: Option<Uuid>,
    ) -> Result<u64, DbErr> {
        if let Some(user) = user {
            // Changes lock organizations before plugins.
            let organization = organizations::Entity::find_by_id(user);
            locked(within, organization).one(within).await?;
        }
        let plugin = plugins::Entity::find_by_id(plugin_id);
        let Some(plugin) = locked(within, plugin).one(within).await? else {
            // Deleted meanwhile, and the mark with it.
            return Ok(0);
        };
        match user {
            Some(user) if !plugin.is_global => self.delete_uses(within, &plugin, user).await,
            // Either no configuration is left, or the plugin is global again.
            _ => {
                let mark = withdrawn::Entity::delete_by_id(plugin_id);
                Ok(mark.exec(within).await?.rows_affected)
            }
        }
    }

    async fn delete_uses(
        self,
        within: &DatabaseTransaction,
        plugin: &plugins::Model,
        user: Uuid,
    ) -> Result<u64, DbErr> {
        let uses: Vec<(i64, bool)> = uses_by_others()
            .filter(configs::Column::PluginId.eq(plugin.id))
            .filter(projects::Column::OrganizationId.eq(user))
            .select_only()
            .columns([configs::Column::Id, configs::Column::Enabled])
            .order_by_asc(configs::Column::Id)
            .limit(ENTRIES_MAX)
            .into_tuple()
            .all(within)
            .await?;
        let ids = uses.iter().map(|(id, _)| *id);
        let gone = configs::Entity::delete_many()
            .filter(configs::Column::Id.is_in(ids))
            .exec(within)
            .await?;
        let name = plugin.name.as_deref().unwrap_or_default();
        for (id, enabled) in uses {
            let (activity, scope) = (Activity::Disabled, ActivityScope::PluginConfig);
            let audit = AuditChange::new(activity, scope, user, &id, name);
            let audit = audit.field("enabled", enabled, ());
            self.0.record(within, &Actor::system(), audit).await?;
        }
        Ok(gone.rows_affected)
    }
}

/// Query for configurations in projects of organizations that do not own the plugin, joined with
/// the projects and the plugins.
#[must_use]
pub fn uses_by_others() -> Select<configs::Entity> {
    let project = configs::Entity::belongs_to(projects::Entity)
        .from(configs::Column::TeamId)
        .to(projects::Column::Id);
    let plugin = configs::Entity::belongs_to(plugins::Entity)
        .from(configs::Column::PluginId)
        .to(plugins::Column::Id);
    let owner = Expr::col((plugins::Entity, plugins::Column::OrganizationId));
    let user = Expr::col((projects::Entity, projects::Column::OrganizationId));
    configs::Entity::find()
        .join(JoinType::InnerJoin, project.into())
        .join(JoinType::InnerJoin, plugin.into())
        .filter(user.ne(owner))
}
