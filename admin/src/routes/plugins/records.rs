//! Operations that list, create, read, change and delete plugins.

use super::bodies::{NewBody, PluginBody};
use super::files::released;
use super::paths::{Paths, READ, WRITE, may_read, of, with, writer};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use millrace_organizations::{NewPlugin, PluginFamily, PluginFields};

pub(super) fn rows(paths: &Paths) -> Vec<Operation> {
    let family = paths.family;
    vec![
        Operation::list(paths.all, of(family, list))
            .about("List plugins")
            .note("The organization's own, and the global ones.")
            .scopes(&READ),
        Operation::create(paths.all, with(family, create))
            .about("Create a plugin")
            .limited_by(&[Limit::Plugins, Limit::PluginSources])
            .note("With the `url` of a plugin in the catalogue, installs that plugin.")
            .scopes(&WRITE)
            .pipelines_level()
            .fails(
                400,
                "unique",
                "The organization has a plugin with this `url`.",
            ),
        Operation::get(paths.one, of(family, retrieve))
            .about("Read a plugin")
            .note("Its `ETag` leaves out `latest_tag` and `organization_name`.")
            .live_fields(&["latest_tag", "organization_name"])
            .scopes(&READ),
        Operation::patch(paths.one, &["plugin_type"], with(family, update))
            .about("Change a plugin")
            .scopes(&WRITE)
            .pipelines_level(),
        Operation::delete(paths.one, of(family, delete))
            .about("Delete a plugin")
            .scopes(&WRITE)
            .pipelines_level()
            .fails(400, "invalid_input", "The plugin is global.")
            .fails(
                503,
                "unavailable",
                "The plugin was global, and is being removed from the projects of other organizations.",
            ),
    ]
}

async fn list(family: PluginFamily, context: Context) -> Result<Envelope<PluginBody>, ApiError> {
    may_read(&context)?;
    let (id, page) = (context.organization_id()?, context.page());
    let read = |page| context.plugins().list(id, family, page);
    context.list(page, read).await
}

async fn create(
    family: PluginFamily,
    context: Context,
    new: NewBody,
) -> Result<PluginBody, ApiError> {
    let actor = context.actor()?;
    let writer = writer(&context, &actor, family)?;
    let url = new.url.sent().flatten();
    let release = match &url {
        Some(url) => released(&context, url).await?,
        None => None,
    };
    let new = NewPlugin {
        fields: new.fields,
        url,
        release,
    };
    let made = context.plugins().create(writer, new).await?;
    Ok(made.into())
}

async fn retrieve(family: PluginFamily, context: Context) -> Result<PluginBody, ApiError> {
    may_read(&context)?;
    let (organization_id, id) = (context.organization_id()?, context.integer("id")?);
    let found = context.plugins().get(organization_id, family, id).await?;
    found.map(PluginBody::from).ok_or_else(ApiError::not_found)
}

async fn update(
    family: PluginFamily,
    context: Context,
    fields: PluginFields,
) -> Result<PluginBody, ApiError> {
    let actor = context.actor()?;
    let (writer, id) = (writer(&context, &actor, family)?, context.integer("id")?);
    let changed = context.plugins().update(writer, id, fields);
    Ok(changed.await?.into())
}

async fn delete(family: PluginFamily, context: Context) -> Result<(), ApiError> {
    let actor = context.actor()?;
    let (writer, id) = (writer(&context, &actor, family)?, context.integer("id")?);
    Ok(context.plugins().delete(writer, id).await?)
}
