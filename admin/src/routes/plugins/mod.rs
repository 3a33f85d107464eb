//! The plugin family: `/api/organizations/:organization_id/<family>/` for five families, which
//! share one set of operations.
//!
//! | Module | Holds |
//! |---|---|
//! | `bodies`, `uses` | wire types: plugins; how projects use them |
//! | `records` | list, create, read, change, delete |
//! | `files` | source, its changes, what the catalogue has |
//! | `views` | activity, catalogue, unused plugins, uses |

mod bodies;
mod files;
mod records;
mod uses;
mod views;

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use http::Method;
use millrace_catalog::{Actor, Family, Need, PluginWriter, features};
use std::future::Future;

const READ: [Need; 1] = [Need::read("plugin")];
const WRITE: [Need; 1] = [Need::write("plugin")];
/// From which `plugins_access_level` of the organization on plugins may be seen.
const ACCESS_READ: i16 = 3;
/// From which on they may be changed.
const ACCESS_WRITE: i16 = 6;
/// From which on they may be made global.
const ACCESS_GLOBAL: i16 = 9;

/// The paths of one family.
struct Paths {
    family: Family,
    all: &'static str,
    one: &'static str,
    check_for_updates: &'static str,
    source: &'static str,
    update_source: &'static str,
    upgrade: &'static str,
    activity: &'static str,
    exports_unsubscribe_configs: &'static str,
    repository: &'static str,
    unused: &'static str,
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

const FAMILIES: [Paths; 5] = [
    paths!(Family::Plugins, "plugins"),
    paths!(Family::Destinations, "pipeline_destinations"),
    paths!(Family::FrontendApps, "pipeline_frontend_apps"),
    paths!(Family::ImportApps, "pipeline_import_apps"),
    paths!(Family::Transformations, "pipeline_transformations"),
];

/// This resource's rows of the table.
pub(crate) fn operations() -> Vec<Operation> {
    FAMILIES.iter().flat_map(rows_of).collect()
}

fn rows_of(paths: &Paths) -> Vec<Operation> {
    let rows = [records::rows(paths), files::rows(paths), views::rows(paths)];
    let rows = rows.into_iter().flatten();
    match paths.family {
        // Without the feature plugins can be read and deleted still.
        Family::Destinations | Family::Transformations => rows
            .map(|row| match row.method {
                Method::GET | Method::DELETE => row,
                _ => row.feature(features::DATA_PIPELINES),
            })
            .collect(),
        Family::Plugins | Family::FrontendApps | Family::ImportApps => rows.collect(),
    }
}

/// A handler that knows its family.
fn of<F, R>(
    family: Family,
    handler: fn(Family, Context) -> F,
) -> impl Fn(Context) -> F + Clone + Send + Sync + 'static
where
    F: Future<Output = Result<R, ApiError>> + Send + 'static,
    R: 'static,
{
    move |context| handler(family, context)
}

/// The same with a body.
fn with<F, B, R>(
    family: Family,
    handler: fn(Family, Context, B) -> F,
) -> impl Fn(Context, B) -> F + Clone + Send + Sync + 'static
where
    F: Future<Output = Result<R, ApiError>> + Send + 'static,
    B: 'static,
    R: 'static,
{
    move |context, body| handler(family, context, body)
}

/// Lets organizations pass that may see plugins.
fn may_read(context: &Context) -> Result<(), ApiError> {
    has_access(context, ACCESS_READ)
}

fn has_access(context: &Context, needed: i16) -> Result<(), ApiError> {
    if context.organization()?.organization.plugins_access_level >= needed {
        Ok(())
    } else {
        Err(ApiError::feature_missing("plugins"))
    }
}

/// The organization, if it may change plugins.
fn writer<'a>(
    context: &Context,
    actor: &'a Actor,
    family: Family,
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
