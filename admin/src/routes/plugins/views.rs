//! Operations that list activity, the catalogue, unused plugins and uses of plugins.

use super::bodies::PluginBody;
use super::files::unreadable;
use super::paths::{Paths, READ, may_read, of};
use super::uses::UseBody;
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::page::Envelope;
use crate::plugin_catalogue::CatalogueEntry;
use crate::routes::activity::{ActivityLogEntry, entries};
use millrace_catalog::{ActivityScope, Page, features};
use millrace_organizations::PluginFamily;

pub(super) fn rows(paths: &Paths) -> Vec<Operation> {
    let family = paths.family;
    vec![
        Operation::list(paths.activity, of(family, activity))
            .about("List the changes of plugins, newest first")
            .feature(features::AUDIT_LOGS)
            .scopes(&READ),
        Operation::list(
            paths.exports_unsubscribe_configs,
            of(family, exports_unsubscribe_configs),
        )
        .about("List the plugins in use that export events")
        .scopes(&READ),
        Operation::list(paths.repository, of(family, repository))
            .waits_outside()
            .about("List the plugins that can be installed")
            .scopes(&READ),
        Operation::list(paths.unused, of(family, unused))
            .about("List the plugins that no project uses")
            .scopes(&READ),
    ]
}

async fn activity(
    _: PluginFamily,
    context: Context,
) -> Result<Envelope<ActivityLogEntry>, ApiError> {
    may_read(&context)?;
    let scopes = vec![ActivityScope::Plugin, ActivityScope::PluginConfig];
    entries(&context, scopes, None).await
}

async fn exports_unsubscribe_configs(
    family: PluginFamily,
    context: Context,
) -> Result<Envelope<UseBody>, ApiError> {
    may_read(&context)?;
    let (id, page) = (context.organization_id()?, context.page());
    let read = |page| context.plugins().list_exporting(id, family, page);
    context.list(page, read).await
}

async fn repository(
    _: PluginFamily,
    context: Context,
) -> Result<Envelope<CatalogueEntry>, ApiError> {
    may_read(&context)?;
    let entries = context.services.plugin_catalogue.entries().await;
    let entries = entries.map_err(|error| unreadable(&error))?;
    let read = async |page| Ok::<_, ApiError>(Page::of(entries.clone(), page));
    context.list(context.page(), read).await
}

async fn unused(family: PluginFamily, context: Context) -> Result<Envelope<PluginBody>, ApiError> {
    may_read(&context)?;
    let (id, page) = (context.organization_id()?, context.page());
    let read = |page| context.plugins().list_unused(id, family, page);
    context.list(page, read).await
}
