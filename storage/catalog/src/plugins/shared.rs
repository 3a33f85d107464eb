//! Global plugins that other organizations use: deleting their organization would delete the
//! configurations of the others.

use crate::entities::{plugin_configs as configs, plugins, projects};
use crate::error::ChangeError;
use crate::transaction::{Abort, locked};
use millrace_rows::counted;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Query;
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};

/// Most plugins that the error names.
const NAMED_MAX: usize = 3;

/// Refuses to delete an organization, which is locked, while others use its global plugins. Until
/// the transaction ends, nobody can begin to use one.
///
/// # Errors
///
/// Other organizations use global plugins of this one.
pub(crate) async fn must_share_no_plugins(
    within: &DatabaseTransaction,
    organization_id: Uuid,
) -> Result<(), Abort> {
    let global = plugins::Entity::find()
        .filter(plugins::Column::OrganizationId.eq(organization_id))
        .filter(plugins::Column::IsGlobal.eq(true))
        .order_by_asc(plugins::Column::Id);
    let global = locked(within, global).all(within).await?;
    if global.is_empty() {
        return Ok(());
    }
    let mut own = Query::select();
    own.column(projects::Column::Id)
        .from(projects::Entity)
        .and_where(projects::Column::OrganizationId.eq(organization_id));
    let used: Vec<i64> = configs::Entity::find()
        .select_only()
        .column(configs::Column::PluginId)
        .distinct()
        .filter(configs::Column::PluginId.is_in(global.iter().map(|plugin| plugin.id)))
        .filter(configs::Column::TeamId.not_in_subquery(own))
        .into_tuple()
        .all(within)
        .await?;
    if used.is_empty() {
        return Ok(());
    }
    let shared = global.iter().filter(|plugin| used.contains(&plugin.id));
    let names = shared.take(NAMED_MAX).map(|plugin| {
        let name = plugin.name.as_deref().unwrap_or("without a name");
        format!("{} ({name})", plugin.id)
    });
    let names = names.collect::<Vec<_>>().join(", ");
    let more = if used.len() > NAMED_MAX { ", …" } else { "" };
    let detail = format!(
        "Other organizations use {} of this one, which would be deleted with it: {names}{more}. \
         Ask the operator to set is_global to false for them, or to give the others plugins of their own.",
        counted(used.len() as u64, "global plugin")
    );
    Err(ChangeError::invalid(None, "invalid_input", detail).into())
}
