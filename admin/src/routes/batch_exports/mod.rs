//! Batch exports, at two paths: `/api/organizations/:organization_id/batch_exports/` for all of an
//! organization, and `/api/projects/:project_id/batch_exports/` for those of a project, where
//! generated clients look for them. Both share one set of operations.
//!
//! | Module | Holds |
//! |---|---|
//! | `bodies`, `changes` | wire types of responses and of requests |
//! | `destinations` | schemas of destinations by their types |
//! | `paths` | paths, scopes, the place of a request |
//! | `records` | list, create, read, change, delete |
//! | `actions` | pause, unpause, backfill |
//! | `runs`, `backfills`, `logs` | runs, backfills and log lines of an export |
//! | `steps` | tests of a destination |

mod actions;
mod backfills;
mod bodies;
mod changes;
mod destinations;
mod logs;
mod paths;
mod records;
mod runs;
mod steps;

use crate::operation::Operation;
use paths::PLACES;

/// Operations of batch exports.
pub(crate) fn operations() -> Vec<Operation> {
    let rows = PLACES.iter().flat_map(|paths| {
        [
            records::rows(paths),
            actions::rows(paths),
            runs::rows(paths),
            backfills::rows(paths),
            logs::rows(paths),
            steps::rows(paths),
        ]
    });
    rows.flatten().collect()
}
