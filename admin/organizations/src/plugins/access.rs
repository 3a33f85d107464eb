//! Permissions to change plugins.

use super::family::PluginFamily;
use super::{PluginView, one};
use millrace_catalog::entities::{organizations, plugins};
use millrace_catalog::features::DATA_PIPELINES;
use millrace_catalog::transaction::{Abort, admit_to_pipelines, locked};
use millrace_catalog::{Actor, ChangeError};
use sea_orm::prelude::Uuid;
use sea_orm::{DatabaseTransaction, EntityTrait};

/// Author of changes of plugins, with permissions.
#[derive(Clone, Copy, Debug)]
pub struct PluginWriter<'a> {
    /// Actor of the change.
    pub actor: &'a Actor,
    /// Organization in which the actor works.
    pub organization_id: Uuid,
    /// Family of the plugin.
    pub family: PluginFamily,
    /// True if the writer may change global plugins.
    pub is_operator: bool,
}

impl PluginWriter<'_> {
    /// Writer for all families: a change may take a plugin out of the family in which it was
    /// changed, and the plugin is returned all the same.
    pub(super) fn for_all_families(self) -> Self {
        Self {
            family: PluginFamily::Plugins,
            ..self
        }
    }
}

/// Refuses a writer who may not delete at this moment; needs no feature.
pub(super) async fn admit_to_delete(
    within: &DatabaseTransaction,
    writer: PluginWriter<'_>,
) -> Result<(), Abort> {
    admit_to_pipelines(within, writer.actor, writer.organization_id).await?;
    Ok(())
}

/// Refuses a writer who may not write at this moment, or whose organization may not use the family.
pub(super) async fn admit(
    within: &DatabaseTransaction,
    writer: PluginWriter<'_>,
) -> Result<(), Abort> {
    let organization = admit_to_pipelines(within, writer.actor, writer.organization_id).await?;
    match writer.family {
        PluginFamily::Destinations | PluginFamily::Transformations => {
            Ok(organization.must_have(DATA_PIPELINES)?)
        }
        PluginFamily::Plugins | PluginFamily::FrontendApps | PluginFamily::ImportApps => Ok(()),
    }
}

/// Reads a plugin that the writer sees.
pub(super) async fn found(
    within: &DatabaseTransaction,
    writer: PluginWriter<'_>,
    id: i64,
) -> Result<PluginView, Abort> {
    let view = one(within, writer.organization_id, writer.family, id).await?;
    Ok(view.ok_or_else(|| ChangeError::not_found("plugin", &id))?)
}

/// Reads a plugin that the writer sees, and locks it until the transaction ends.
pub(super) async fn found_for_change(
    within: &DatabaseTransaction,
    writer: PluginWriter<'_>,
    id: i64,
) -> Result<PluginView, Abort> {
    let row = plugins::Entity::find_by_id(id);
    locked(within, row).one(within).await?;
    found(within, writer, id).await
}

/// Reads and locks a plugin that the writer may change at this moment.
pub(super) async fn changeable(
    within: &DatabaseTransaction,
    writer: PluginWriter<'_>,
    id: i64,
) -> Result<plugins::Model, Abort> {
    admit(within, writer).await?;
    own_plugin(within, writer, id).await
}

/// Reads and locks a plugin that an admitted writer may change or delete.
pub(super) async fn own_plugin(
    within: &DatabaseTransaction,
    writer: PluginWriter<'_>,
    id: i64,
) -> Result<plugins::Model, Abort> {
    let plugin = found_for_change(within, writer, id).await?.plugin;
    may_change(writer, &plugin)?;
    Ok(plugin)
}

/// Refuses a destination or transformation of an organization without their feature, whichever
/// family it is changed in. The organization is locked.
pub(super) async fn must_have_feature_of(
    within: &DatabaseTransaction,
    plugin: &plugins::Model,
) -> Result<(), Abort> {
    if !(plugin.is_destination || plugin.is_transformation) {
        return Ok(());
    }
    let owner = organizations::Entity::find_by_id(plugin.organization_id);
    let owner = owner.one(within).await?;
    let missing = || ChangeError::not_found("organization", &plugin.organization_id);
    Ok(owner.ok_or_else(missing)?.must_have(DATA_PIPELINES)?)
}

/// Refuses a writer who may not change the plugin: another organization's, or a global one without
/// the operator's power.
pub(super) fn may_change(
    writer: PluginWriter<'_>,
    plugin: &plugins::Model,
) -> Result<(), ChangeError> {
    if plugin.organization_id != writer.organization_id {
        let detail = "This plugin belongs to another organization, which alone may change it.";
        return Err(ChangeError::forbidden(detail));
    }
    if plugin.is_global && !writer.is_operator {
        return Err(global_needs_operator());
    }
    Ok(())
}

pub(super) fn global_needs_operator() -> ChangeError {
    ChangeError::forbidden(
        "Global plugins are the operator's to change: use a key with the scope operator, in an \
         organization whose plugins_access_level is 9.",
    )
}
