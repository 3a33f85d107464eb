//! Operations that read and change a plugin's source, check for updates and upgrade.

use super::bodies::{CheckedPluginBody, PluginBody, PluginSourceBody, SourceBody};
use super::paths::{Paths, READ, WRITE, may_read, of, with, writer};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::plugin_catalogue::CatalogueError;
use millrace_catalog::PluginType;
use millrace_organizations::{PluginFamily, PluginFields, PluginRelease, PluginView, PluginWriter};

pub(super) fn rows(paths: &Paths) -> Vec<Operation> {
    let family = paths.family;
    vec![
        Operation::get(paths.check_for_updates, of(family, check_for_updates))
            .waits_outside()
            .large_response()
            .about("Check the catalogue for a newer version")
            .scopes(&READ),
        Operation::get(paths.source, of(family, source))
            .about("Read the files of a plugin")
            .source_response()
            .scopes(&READ),
        Operation::patch_action(paths.update_source, with(family, update_source))
            .about("Change the files of a plugin")
            .limited_by(&[Limit::PluginSources])
            .source_response()
            .note(
                "The main file determines the capabilities; `plugin.json` sets name and settings.",
            )
            .fails(
                400,
                "invalid_input",
                "The name of a file is not a path within the plugin, or the main file has a syntax \
                                 error (the detail says where) or is too complex to parse.",
            )
            .fails(503, "unavailable", "Too many sources wait to be parsed.")
            .scopes(&WRITE)
            .pipelines_level(),
        Operation::action(paths.upgrade, with(family, upgrade))
            .waits_outside()
            .about("Upgrade a plugin to the version in the catalogue")
            .limited_by(&[Limit::PluginSources])
            .note("A plugin that is not in the catalogue is not changed.")
            .scopes(&WRITE)
            .pipelines_level(),
    ]
}

async fn check_for_updates(
    family: PluginFamily,
    context: Context,
) -> Result<CheckedPluginBody, ApiError> {
    may_read(&context)?;
    let view = found(&context, family).await?;
    let Some(url) = view.plugin.url.as_deref().filter(|_| is_catalogued(&view)) else {
        return Ok(view.into());
    };
    let entry = context.services.plugin_catalogue.entry(url).await;
    let latest = entry
        .map_err(|error| unreadable(&error))?
        .map(|entry| entry.tag);
    if latest == view.plugin.latest_tag {
        return Ok(view.into());
    }
    let actor = context.actor()?;
    let writer = PluginWriter {
        actor: &actor,
        organization_id: context.organization_id()?,
        family,
        is_operator: false,
    };
    let checked = context
        .plugins()
        .set_latest_tag(writer, view.plugin.id, latest);
    Ok(checked.await?.into())
}

async fn source(family: PluginFamily, context: Context) -> Result<PluginSourceBody, ApiError> {
    may_read(&context)?;
    let (organization_id, id) = (context.organization_id()?, context.integer("id")?);
    let found = context.plugins().files(organization_id, family, id).await?;
    found
        .map(PluginSourceBody::from)
        .ok_or_else(ApiError::not_found)
}

async fn update_source(
    family: PluginFamily,
    context: Context,
    body: SourceBody,
) -> Result<PluginSourceBody, ApiError> {
    let actor = context.actor()?;
    let (writer, id) = (writer(&context, &actor, family)?, context.integer("id")?);
    let (fields, files) = body.into_parts();
    let changed = context.plugins().update_source(writer, id, fields, files);
    Ok(changed.await?.into())
}

async fn upgrade(
    family: PluginFamily,
    context: Context,
    fields: PluginFields,
) -> Result<PluginBody, ApiError> {
    let actor = context.actor()?;
    let (writer, id) = (writer(&context, &actor, family)?, context.integer("id")?);
    let view = found(&context, family).await?;
    let release = match view.plugin.url.as_deref().filter(|_| is_catalogued(&view)) {
        Some(url) => released(&context, url).await?,
        None => None,
    };
    let upgraded = context.plugins().upgrade(writer, id, fields, release);
    Ok(upgraded.await?.into())
}

async fn found(context: &Context, family: PluginFamily) -> Result<PluginView, ApiError> {
    let (organization_id, id) = (context.organization_id()?, context.integer("id")?);
    let found = context.plugins().get(organization_id, family, id).await?;
    found.ok_or_else(ApiError::not_found)
}

/// Returns true if the catalogue may upgrade the plugin: not if it comes from a folder, or has a
/// source of its own.
fn is_catalogued(view: &PluginView) -> bool {
    !matches!(
        view.plugin.plugin_type,
        Some(PluginType::Local | PluginType::Source)
    )
}

/// Reads the plugin of an address from the catalogue.
pub(super) async fn released(
    context: &Context,
    url: &str,
) -> Result<Option<PluginRelease>, ApiError> {
    let release = context.services.plugin_catalogue.release(url).await;
    release.map_err(|error| unreadable(&error))
}

/// 503 for a catalogue that cannot be read; the operator must fix it.
pub(super) fn unreadable(error: &CatalogueError) -> ApiError {
    tracing::error!(%error, "the plugin catalogue cannot be used");
    ApiError::unavailable()
}
