//! Who may change which plugin.

use super::family::Family;
use super::{SeenPlugin, one};
use crate::actor::Actor;
use crate::entities::{organizations, plugins};
use crate::error::ChangeError;
use crate::features::DATA_PIPELINES;
use crate::transaction::{Abort, admit_to_pipelines, locked};
use sea_orm::prelude::Uuid;
use sea_orm::{DatabaseTransaction, EntityTrait};

/// Who changes plugins, where, and with what power.
#[derive(Clone, Copy, Debug)]
pub struct PluginWriter<'a> {
    /// Who.
    pub actor: &'a Actor,
    /// Whose plugins.
    pub organization_id: Uuid,
    /// In which view.
    pub family: Family,
    /// Whether they may touch what every organization sees.
    pub is_operator: bool,
}

impl PluginWriter<'_> {
    /// The same writer, past the view: what a plugin is given may put it out of the view that it
    /// was made or changed in, and is answered all the same.
    pub(super) fn anywhere(self) -> Self {
        Self {
            family: Family::Plugins,
            ..self
        }
    }
}

/// Lets a writer pass who may delete at this moment: that takes no feature.
pub(super) async fn admit_to_delete(
    within: &DatabaseTransaction,
    writer: PluginWriter<'_>,
) -> Result<(), Abort> {
    admit_to_pipelines(within, writer.actor, writer.organization_id).await?;
    Ok(())
}

/// Lets a writer pass who may write at this moment, in an organization that may use the family at this moment.
pub(super) async fn admit(
    within: &DatabaseTransaction,
    writer: PluginWriter<'_>,
) -> Result<(), Abort> {
    let organization = admit_to_pipelines(within, writer.actor, writer.organization_id).await?;
    match writer.family {
        Family::Destinations | Family::Transformations => {
            Ok(organization.must_have(DATA_PIPELINES)?)
        }
        Family::Plugins | Family::FrontendApps | Family::ImportApps => Ok(()),
    }
}

/// A plugin that the writer sees.
pub(super) async fn found(
    within: &DatabaseTransaction,
    writer: PluginWriter<'_>,
    id: i64,
) -> Result<SeenPlugin, Abort> {
    let seen = one(within, writer.organization_id, writer.family, id).await?;
    Ok(seen.ok_or_else(|| ChangeError::not_found("plugin", &id))?)
}

/// The same, for as long as the transaction lasts.
pub(super) async fn found_for_change(
    within: &DatabaseTransaction,
    writer: PluginWriter<'_>,
    id: i64,
) -> Result<SeenPlugin, Abort> {
    let row = plugins::Entity::find_by_id(id);
    locked(within, row).one(within).await?;
    found(within, writer, id).await
}

/// A plugin that the writer may change at this moment.
pub(super) async fn changeable(
    within: &DatabaseTransaction,
    writer: PluginWriter<'_>,
    id: i64,
) -> Result<plugins::Model, Abort> {
    admit(within, writer).await?;
    own_plugin(within, writer, id).await
}

/// A plugin that a writer who was admitted may change or delete.
pub(super) async fn own_plugin(
    within: &DatabaseTransaction,
    writer: PluginWriter<'_>,
    id: i64,
) -> Result<plugins::Model, Abort> {
    let plugin = found_for_change(within, writer, id).await?.plugin;
    may_change(writer, &plugin)?;
    Ok(plugin)
}

/// Refuses what would be a destination or a transformation to an organization without the feature of
/// those, whichever view it is made or changed in. The organization is locked.
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

/// Whose plugin it is decides.
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
        "Global plugins are the operator's to change: use a key with the scope operator.",
    )
}
