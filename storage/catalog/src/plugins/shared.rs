//! Plugins that other organizations use: deleting the plugin or its organization would delete the
//! configurations of the others. Withdrawing a global plugin deletes them first, with an entry in
//! the log of each organization.

use crate::activity::{Activity, ActivityScope, AuditChange};
use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::{organizations, plugin_configs as configs, plugins, projects};
use crate::error::ChangeError;
use crate::transaction::{Abort, locked};
use millrace_rows::counted;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{LockBehavior, LockType, Query};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait, JoinType,
    QueryFilter, QueryOrder, QuerySelect, Select,
};
use std::collections::BTreeSet;

/// Most plugins that the error names.
const NAMED_MAX: usize = 3;
/// Remedy for plugins that others use.
const REMEDY: &str = "Ask the operator to set is_global to false (to true first, where it is false \
     already): that removes the plugin from the others' projects.";

/// Configuration in a project of another organization.
struct ForeignUse {
    config_id: i64,
    enabled: bool,
    organization_id: Uuid,
}

/// Refuses to delete an organization, which is locked, while others use its plugins. Until the
/// transaction ends, nobody can begin to use one.
///
/// # Errors
///
/// Other organizations use plugins of this one.
pub(crate) async fn must_share_no_plugins(
    within: &DatabaseTransaction,
    organization_id: Uuid,
) -> Result<(), Abort> {
    let own_plugins = plugins::Entity::find()
        .filter(plugins::Column::OrganizationId.eq(organization_id))
        .order_by_asc(plugins::Column::Id);
    let own_plugins = locked(within, own_plugins).all(within).await?;
    if own_plugins.is_empty() {
        return Ok(());
    }
    let mut project_ids = Query::select();
    project_ids
        .column(projects::Column::Id)
        .from(projects::Entity)
        .and_where(projects::Column::OrganizationId.eq(organization_id));
    let mut ids = Query::select();
    ids.column(plugins::Column::Id)
        .from(plugins::Entity)
        .and_where(plugins::Column::OrganizationId.eq(organization_id));
    let used: Vec<i64> = configs::Entity::find()
        .select_only()
        .column(configs::Column::PluginId)
        .distinct()
        .filter(configs::Column::PluginId.in_subquery(ids))
        .filter(configs::Column::TeamId.not_in_subquery(project_ids))
        .into_tuple()
        .all(within)
        .await?;
    if used.is_empty() {
        return Ok(());
    }
    let shared = own_plugins
        .iter()
        .filter(|plugin| used.contains(&plugin.id));
    let names = shared.take(NAMED_MAX).map(|plugin| {
        let name = plugin.name.as_deref().unwrap_or("without a name");
        format!("{} ({name})", plugin.id)
    });
    let names = names.collect::<Vec<_>>().join(", ");
    let more = if used.len() > NAMED_MAX { ", …" } else { "" };
    let detail = format!(
        "Other organizations use {} of this one, which would be deleted with it: {names}{more}. \
         {REMEDY}",
        counted(used.len() as u64, "plugin")
    );
    Err(ChangeError::invalid(None, "invalid_input", detail).into())
}

/// Refuses to delete a plugin, which is locked, while other organizations use it.
pub(super) async fn must_be_used_by_owner_only(
    within: &DatabaseTransaction,
    plugin: &plugins::Model,
) -> Result<(), Abort> {
    if foreign_uses(within, plugin).await?.is_empty() {
        return Ok(());
    }
    let detail = format!("Other organizations use this plugin. {REMEDY}");
    Err(ChangeError::invalid(None, "invalid_input", detail).into())
}

/// Locks the organizations that the withdrawal of a plugin concerns: the owner and those that use
/// it, in one order, and before the plugin, as everybody does.
pub(super) async fn lock_concerned(
    within: &DatabaseTransaction,
    owner: Uuid,
    plugin_id: i64,
) -> Result<(), DbErr> {
    let mut concerned: Vec<Uuid> = configs_with_projects()
        .select_only()
        .column(projects::Column::OrganizationId)
        .distinct()
        .filter(configs::Column::PluginId.eq(plugin_id))
        .into_tuple()
        .all(within)
        .await?;
    concerned.push(owner);
    locked(within, of_ids(concerned)).all(within).await?;
    Ok(())
}

impl Catalog {
    /// Removes a plugin that is global no more from the projects of other organizations, and
    /// writes it into their logs. The plugin is locked, and so are the organizations
    /// ([`lock_concerned`]).
    ///
    /// # Errors
    ///
    /// An organization began to use the plugin after the organizations were locked.
    pub(super) async fn withdraw(
        &self,
        within: &DatabaseTransaction,
        actor: &Actor,
        plugin: &plugins::Model,
    ) -> Result<(), Abort> {
        let uses = foreign_uses(within, plugin).await?;
        must_be_locked(within, &uses).await?;
        let name = plugin.name.as_deref().unwrap_or_default();
        for foreign in uses {
            configs::Entity::delete_by_id(foreign.config_id)
                .exec(within)
                .await?;
            let (activity, scope) = (Activity::Disabled, ActivityScope::PluginConfig);
            let id = foreign.config_id;
            let audit = AuditChange::new(activity, scope, foreign.organization_id, &id, name)
                .field("enabled", foreign.enabled, ());
            self.record(within, actor, audit).await?;
        }
        Ok(())
    }
}

/// Refuses uses of organizations that this transaction has not locked. They are not waited for,
/// which could deadlock: they may wait for the plugin.
async fn must_be_locked(within: &DatabaseTransaction, uses: &[ForeignUse]) -> Result<(), Abort> {
    let users: BTreeSet<Uuid> = uses.iter().map(|foreign| foreign.organization_id).collect();
    let mut query = of_ids(users.iter().copied());
    if within.get_database_backend() == DbBackend::Postgres {
        query = query.lock_with_behavior(LockType::Update, LockBehavior::SkipLocked);
    }
    if query.all(within).await?.len() == users.len() {
        return Ok(());
    }
    let detail = "an organization began to use the plugin, or is deleted, at this time; try again";
    Err(ChangeError::Unavailable(detail.to_owned()).into())
}

/// Query for organizations, in the order in which they are locked everywhere.
fn of_ids(ids: impl IntoIterator<Item = Uuid>) -> Select<organizations::Entity> {
    organizations::Entity::find()
        .filter(organizations::Column::Id.is_in(ids))
        .order_by_asc(organizations::Column::Id)
}

fn configs_with_projects() -> Select<configs::Entity> {
    let project = configs::Entity::belongs_to(projects::Entity)
        .from(configs::Column::TeamId)
        .to(projects::Column::Id);
    configs::Entity::find().join(JoinType::InnerJoin, project.into())
}

/// Uses of a plugin by other organizations, in the order of these.
async fn foreign_uses(
    within: &DatabaseTransaction,
    plugin: &plugins::Model,
) -> Result<Vec<ForeignUse>, DbErr> {
    let found: Vec<(i64, bool, Uuid)> = configs_with_projects()
        .select_only()
        .column(configs::Column::Id)
        .column(configs::Column::Enabled)
        .column(projects::Column::OrganizationId)
        .filter(configs::Column::PluginId.eq(plugin.id))
        .filter(projects::Column::OrganizationId.ne(plugin.organization_id))
        .order_by_asc(projects::Column::OrganizationId)
        .order_by_asc(configs::Column::Id)
        .into_tuple()
        .all(within)
        .await?;
    let uses = found
        .into_iter()
        .map(|(config_id, enabled, organization_id)| ForeignUse {
            config_id,
            enabled,
            organization_id,
        });
    Ok(uses.collect())
}
