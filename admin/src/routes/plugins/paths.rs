//! Paths of the families of plugins, and access to them.

use crate::context::Context;
use crate::error::ApiError;
use millrace_catalog::{Actor, RequiredScope};
use millrace_organizations::{PluginFamily, PluginWriter};
use std::future::Future;

pub(super) const READ: [RequiredScope; 1] = [RequiredScope::read("plugin")];
pub(super) const WRITE: [RequiredScope; 1] = [RequiredScope::write("plugin")];
/// Least `plugins_access_level` of the organization at which plugins are visible.
const ACCESS_READ: i16 = 3;
/// Least level at which plugins may be changed.
const ACCESS_WRITE: i16 = 6;
/// Least level at which plugins may be made global.
const ACCESS_GLOBAL: i16 = 9;

/// Paths of one family.
pub(super) struct Paths {
    pub(super) family: PluginFamily,
    pub(super) all: &'static str,
    pub(super) one: &'static str,
    pub(super) check_for_updates: &'static str,
    pub(super) source: &'static str,
    pub(super) update_source: &'static str,
    pub(super) upgrade: &'static str,
    pub(super) activity: &'static str,
    pub(super) exports_unsubscribe_configs: &'static str,
    pub(super) repository: &'static str,
    pub(super) unused: &'static str,
}

macro_rules! below {
    ($segment:literal, $rest:literal) => {
        concat!(
            "/api/organizations/{organization_id}/",
            $segment,
            "/",
            $rest
        )
    };
}

macro_rules! paths {
    ($family:expr, $segment:literal) => {
        Paths {
            family: $family,
            all: below!($segment, ""),
            one: below!($segment, "{id}/"),
            check_for_updates: below!($segment, "{id}/check_for_updates/"),
            source: below!($segment, "{id}/source/"),
            update_source: below!($segment, "{id}/update_source/"),
            upgrade: below!($segment, "{id}/upgrade/"),
            activity: below!($segment, "activity/"),
            exports_unsubscribe_configs: below!($segment, "exports_unsubscribe_configs/"),
            repository: below!($segment, "repository/"),
            unused: below!($segment, "unused/"),
        }
    };
}

pub(super) const FAMILIES: [Paths; 5] = [
    paths!(PluginFamily::Plugins, "plugins"),
    paths!(PluginFamily::Destinations, "pipeline_destinations"),
    paths!(PluginFamily::FrontendApps, "pipeline_frontend_apps"),
    paths!(PluginFamily::ImportApps, "pipeline_import_apps"),
    paths!(PluginFamily::Transformations, "pipeline_transformations"),
];

/// Binds a handler to a family.
pub(super) fn of<F, R>(
    family: PluginFamily,
    handler: fn(PluginFamily, Context) -> F,
) -> impl Fn(Context) -> F + Clone + Send + Sync + 'static
where
    F: Future<Output = Result<R, ApiError>> + Send + 'static,
    R: 'static,
{
    move |context| handler(family, context)
}

/// Binds a handler with a body to a family.
pub(super) fn with<F, B, R>(
    family: PluginFamily,
    handler: fn(PluginFamily, Context, B) -> F,
) -> impl Fn(Context, B) -> F + Clone + Send + Sync + 'static
where
    F: Future<Output = Result<R, ApiError>> + Send + 'static,
    B: 'static,
    R: 'static,
{
    move |context, body| handler(family, context, body)
}

/// Checks that the organization may see plugins.
pub(super) fn may_read(context: &Context) -> Result<(), ApiError> {
    has_access(context, ACCESS_READ)
}

fn has_access(context: &Context, needed: i16) -> Result<(), ApiError> {
    if context.organization()?.organization.plugins_access_level >= needed {
        Ok(())
    } else {
        Err(ApiError::feature_missing("plugins"))
    }
}

/// Writer for changes by the organization, if it may change plugins.
pub(super) fn writer<'a>(
    context: &Context,
    actor: &'a Actor,
    family: PluginFamily,
) -> Result<PluginWriter<'a>, ApiError> {
    has_access(context, ACCESS_WRITE)?;
    let level = context.organization()?.organization.plugins_access_level;
    Ok(PluginWriter {
        actor,
        organization_id: context.organization_id()?,
        family,
        is_operator: level >= ACCESS_GLOBAL && context.caller()?.scopes.operate(),
    })
}
