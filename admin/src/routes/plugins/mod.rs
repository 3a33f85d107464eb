//! Plugins: `/api/organizations/:organization_id/<family>/` for five families, which share one
//! set of operations.
//!
//! | Module | Holds |
//! |---|---|
//! | `bodies`, `uses` | wire types of plugins, and of projects' uses of them |
//! | `paths` | paths of the families, access to them |
//! | `records` | list, create, read, change, delete |
//! | `files` | source files, updates from the catalogue |
//! | `views` | activity, catalogue, unused plugins, uses |

mod bodies;
mod files;
mod paths;
mod records;
mod uses;
mod views;

use crate::operation::Operation;
use http::Method;
use millrace_catalog::features;
use millrace_organizations::PluginFamily;
use paths::{FAMILIES, Paths};

/// Operations of all families of plugins.
pub(crate) fn operations() -> Vec<Operation> {
    FAMILIES.iter().flat_map(rows_of).collect()
}

fn rows_of(paths: &Paths) -> Vec<Operation> {
    let rows = [records::rows(paths), files::rows(paths), views::rows(paths)];
    let rows = rows.into_iter().flatten();
    match paths.family {
        // Without the feature plugins can still be read and deleted.
        PluginFamily::Destinations | PluginFamily::Transformations => rows
            .map(|row| match row.method {
                Method::GET | Method::DELETE => row,
                _ => row.feature(features::DATA_PIPELINES),
            })
            .collect(),
        PluginFamily::Plugins | PluginFamily::FrontendApps | PluginFamily::ImportApps => {
            rows.collect()
        }
    }
}
