//! Plugins that other organizations use: deleting the plugin or its organization would delete the
//! configurations of the others, without an entry in their logs. Both are refused meanwhile.
//!
//! A global plugin that is withdrawn is gone for the others at once, and gets a mark. `cleanup`
//! deletes their configurations piece by piece, with an entry in the log of each organization: one
//! transaction for all would lock all of them, and write any number of rows.

use millrace_catalog::ChangeError;
use millrace_catalog::cleanup::uses_by_others;
use millrace_catalog::entities::{
    plugin_configs as configs, plugins, withdrawn_plugins as withdrawn,
};
use millrace_catalog::transaction::Abort;
use millrace_rows::counted;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect, QueryTrait,
};

/// Most plugins that the error names.
const NAMED_MAX: usize = 3;
/// Remedy for plugins that others use.
const REMEDY: &str = "Ask the operator to set is_global to false first: that removes a \
     plugin from the others' projects.";
/// Reason why plugins that are withdrawn already are not deleted yet.
const IN_REMOVAL: &str = "a withdrawn plugin is being removed from the projects of other \
     organizations; try again in some seconds";

/// Refuses to delete an organization, which is locked, while others use its plugins.
///
/// # Errors
///
/// Other organizations use plugins of this one, or [`ChangeError::Unavailable`] if all of these
/// plugins are withdrawn.
pub(crate) async fn must_share_no_plugins(
    within: &DatabaseTransaction,
    organization_id: Uuid,
) -> Result<(), Abort> {
    let used = uses_by_others()
        .filter(plugins::Column::OrganizationId.eq(organization_id))
        .select_only()
        .column(configs::Column::PluginId)
        .into_query();
    let shared: Vec<(i64, Option<String>, bool)> = plugins::Entity::find()
        .select_only()
        .columns([
            plugins::Column::Id,
            plugins::Column::Name,
            plugins::Column::IsGlobal,
        ])
        .filter(plugins::Column::Id.in_subquery(used))
        .order_by_asc(plugins::Column::Id)
        .into_tuple()
        .all(within)
        .await?;
    if shared.is_empty() {
        return Ok(());
    }
    let global = shared.iter().filter(|(.., is_global)| *is_global);
    let count = global.clone().count();
    if count == 0 {
        return Err(in_removal());
    }
    let names = global.take(NAMED_MAX).map(|(id, name, _)| {
        let name = name.as_deref().unwrap_or("without a name");
        format!("{id} ({name})")
    });
    let names = names.collect::<Vec<_>>().join(", ");
    let more = if count > NAMED_MAX { ", …" } else { "" };
    let detail = format!(
        "Other organizations use {} of this one, which would be deleted with it: {names}{more}. \
         {REMEDY}",
        counted(count as u64, "plugin")
    );
    Err(ChangeError::invalid(None, "invalid_input", detail).into())
}

/// Refuses to delete a global plugin.
pub(super) fn must_not_be_global(plugin: &plugins::Model) -> Result<(), ChangeError> {
    if !plugin.is_global {
        return Ok(());
    }
    let detail =
        format!("A global plugin cannot be deleted, as other organizations may use it. {REMEDY}");
    Err(ChangeError::invalid(None, "invalid_input", detail))
}

/// Refuses to delete a plugin, which is locked, while other organizations have configurations of
/// it.
///
/// # Errors
///
/// The plugin is global, or [`ChangeError::Unavailable`] if it is withdrawn.
pub(super) async fn must_be_used_by_owner_only(
    within: &DatabaseTransaction,
    plugin: &plugins::Model,
) -> Result<(), Abort> {
    // It was read before it was locked.
    must_not_be_global(plugin)?;
    let used: Option<i64> = uses_by_others()
        .filter(configs::Column::PluginId.eq(plugin.id))
        .select_only()
        .column(configs::Column::Id)
        .into_tuple()
        .one(within)
        .await?;
    match used {
        Some(_) => Err(in_removal()),
        None => Ok(()),
    }
}

/// Marks a plugin that is global no more, so that `cleanup` removes it from the projects of other
/// organizations. The plugin is locked.
pub(super) async fn mark_withdrawn(
    within: &DatabaseTransaction,
    plugin_id: i64,
) -> Result<(), DbErr> {
    let mark = withdrawn::ActiveModel {
        plugin_id: ActiveValue::Set(plugin_id),
    };
    // Withdrawn before, made global again, and not cleaned up meanwhile.
    let mut once = OnConflict::column(withdrawn::Column::PluginId);
    once.do_nothing();
    let marked = withdrawn::Entity::insert(mark).on_conflict(once);
    marked.exec_without_returning(within).await.map(drop)
}

fn in_removal() -> Abort {
    ChangeError::Unavailable(IN_REMOVAL.to_owned()).into()
}
