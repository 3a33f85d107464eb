//! The source, its changes, and what the catalogue has.

use super::bodies::{CheckedAnswer, PatchBody, PluginBody, SourceAnswer, SourceBody};
use super::{Paths, READ, WRITE, may_read, of, with, writer};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::plugin_catalogue::CatalogueError;
use millrace_catalog::{Family, PluginRelease, PluginType, PluginWriter, SeenPlugin};

pub(super) fn rows(paths: &Paths) -> Vec<Operation> {
    let family = paths.family;
    vec![
        Operation::get(paths.check_for_updates, of(family, check_for_updates))
            .waits_outside()
            .answers_much()
            .about("Look which version the catalogue has")
            .scopes(&READ),
        Operation::get(paths.source, of(family, source))
            .about("Read the files of a plugin")
            .answers_a_source()
            .scopes(&READ),
        Operation::patch_action(paths.update_source, with(family, update_source))
            .about("Change the files of a plugin")
            .counted(&[Limit::PluginSources])
            .answers_a_source()
            .note("The main file says what the plugin can do; plugin.json sets name and settings.")
            .fails(
                400,
                "invalid_input",
                "A file that cannot be kept, as its name is no path within the plugin; a main file that is no code (the \
                 detail says where), or too complex to be read.",
            )
            .fails(503, "unavailable", "Too many sources wait to be read.")
            .scopes(&WRITE)
            .pipelines_level(),
        Operation::action(paths.upgrade, with(family, upgrade))
            .waits_outside()
            .about("Install what the catalogue has")
            .counted(&[Limit::PluginSources])
            .note("A plugin that is not in the catalogue stays as it is.")
            .scopes(&WRITE)
            .pipelines_level(),
    ]
}

async fn check_for_updates(family: Family, context: Context) -> Result<CheckedAnswer, ApiError> {
    may_read(&context)?;
    let seen = found(&context, family).await?;
    let Some(url) = seen.plugin.url.as_deref().filter(|_| is_catalogued(&seen)) else {
        return Ok(seen.into());
    };
    let entry = context.services.plugin_catalogue.entry(url).await;
    let latest = entry
        .map_err(|error| unreadable(&error))?
        .map(|entry| entry.tag);
    if latest == seen.plugin.latest_tag {
        return Ok(seen.into());
    }
    let actor = context.actor()?;
    let writer = PluginWriter {
        actor: &actor,
        organization_id: context.organization_id()?,
        family,
        is_operator: false,
    };
    let checked = context
        .catalog()
        .set_plugin_latest_tag(writer, seen.plugin.id, latest);
    Ok(checked.await?.into())
}

async fn source(family: Family, context: Context) -> Result<SourceAnswer, ApiError> {
    may_read(&context)?;
    let (organization_id, id) = (context.organization_id()?, context.integer("id")?);
    let found = context
        .catalog()
        .plugin_files(organization_id, family, id)
        .await?;
    found
        .map(SourceAnswer::from)
        .ok_or_else(ApiError::not_found)
}

async fn update_source(
    family: Family,
    context: Context,
    body: SourceBody,
) -> Result<SourceAnswer, ApiError> {
    let actor = context.actor()?;
    let (writer, id) = (writer(&context, &actor, family)?, context.integer("id")?);
    let (fields, files) = body.apart();
    let changed = context
        .catalog()
        .update_plugin_source(writer, id, fields, files);
    Ok(changed.await?.into())
}

async fn upgrade(
    family: Family,
    context: Context,
    patch: PatchBody,
) -> Result<PluginBody, ApiError> {
    let actor = context.actor()?;
    let (writer, id) = (writer(&context, &actor, family)?, context.integer("id")?);
    let seen = found(&context, family).await?;
    let release = match seen.plugin.url.as_deref().filter(|_| is_catalogued(&seen)) {
        Some(url) => released(&context, url).await?,
        None => None,
    };
    let upgraded = context
        .catalog()
        .upgrade_plugin(writer, id, patch.into(), release);
    Ok(upgraded.await?.into())
}

async fn found(context: &Context, family: Family) -> Result<SeenPlugin, ApiError> {
    let (organization_id, id) = (context.organization_id()?, context.integer("id")?);
    let found = context
        .catalog()
        .plugin(organization_id, family, id)
        .await?;
    found.ok_or_else(ApiError::not_found)
}

/// Plugins of a folder and plugins with a source of their own are nobody else's to bring up to
/// date.
fn is_catalogued(seen: &SeenPlugin) -> bool {
    !matches!(
        seen.plugin.plugin_type,
        Some(PluginType::Local | PluginType::Source)
    )
}

/// What the catalogue has under an address.
pub(super) async fn released(
    context: &Context,
    url: &str,
) -> Result<Option<PluginRelease>, ApiError> {
    let release = context.services.plugin_catalogue.release(url).await;
    release.map_err(|error| unreadable(&error))
}

/// 503: the catalogue is the operator's to mend.
pub(super) fn unreadable(error: &CatalogueError) -> ApiError {
    tracing::error!(%error, "the plugin catalogue cannot be used");
    ApiError::unavailable()
}
