//! Batch exports, twice: `/api/organizations/:organization_id/batch_exports/` for all of an
//! organization, and `/api/projects/:project_id/batch_exports/` for those of a project, where
//! generated clients look for them. Both share one set of operations.
//!
//! | Module | Holds |
//! |---|---|
//! | `bodies`, `changes` | wire types: what is answered; what is sent |
//! | `destinations` | schemas of destinations by their types |
//! | `records` | list, create, read, change, delete |
//! | `actions` | pause, unpause, backfill |
//! | `runs`, `backfills`, `logs` | what became of it |
//! | `steps` | what a test of a destination would do |

mod actions;
mod backfills;
mod bodies;
mod changes;
mod destinations;
mod logs;
mod records;
mod runs;
mod steps;

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::timestamp::{self, Timestamp};
use millrace_catalog::{
    Actor, DestinationLimits, ExportPlace, ExportWriter, Feature, Need, TeamId, UtcTime, features,
};
use millrace_dial::addresses::is_public;

const READ: [Need; 1] = [Need::read("batch_export")];
const WRITE: [Need; 1] = [Need::write("batch_export")];
/// Without it exports can be read, paused, cancelled and deleted still.
const FEATURE: Feature = features::DATA_PIPELINES;

/// The paths of one place.
struct Paths {
    all: &'static str,
    test: &'static str,
    one: &'static str,
    pause: &'static str,
    unpause: &'static str,
    backfill: &'static str,
    logs: &'static str,
    runs: &'static str,
    run: &'static str,
    retry: &'static str,
    cancel: &'static str,
    run_logs: &'static str,
    backfills: &'static str,
    one_backfill: &'static str,
    cancel_backfill: &'static str,
}

macro_rules! paths {
    ($place:literal) => {
        Paths {
            all: concat!($place, "batch_exports/"),
            test: concat!($place, "batch_exports/test/"),
            one: concat!($place, "batch_exports/{id}/"),
            pause: concat!($place, "batch_exports/{id}/pause/"),
            unpause: concat!($place, "batch_exports/{id}/unpause/"),
            backfill: concat!($place, "batch_exports/{id}/backfill/"),
            logs: concat!($place, "batch_exports/{id}/logs/"),
            runs: concat!($place, "batch_exports/{id}/runs/"),
            run: concat!($place, "batch_exports/{id}/runs/{run_id}/"),
            retry: concat!($place, "batch_exports/{id}/runs/{run_id}/retry/"),
            cancel: concat!($place, "batch_exports/{id}/runs/{run_id}/cancel/"),
            run_logs: concat!($place, "batch_exports/{id}/runs/{run_id}/logs/"),
            backfills: concat!($place, "batch_exports/{id}/backfills/"),
            one_backfill: concat!($place, "batch_exports/{id}/backfills/{backfill_id}/"),
            cancel_backfill: concat!($place, "batch_exports/{id}/backfills/{backfill_id}/cancel/"),
        }
    };
}

const PLACES: [Paths; 2] = [
    paths!("/api/organizations/{organization_id}/"),
    paths!("/api/projects/{project_id}/"),
];

/// This resource's rows of the table.
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

/// Whose exports the path means.
fn place(context: &Context) -> Result<ExportPlace, ApiError> {
    Ok(ExportPlace {
        organization_id: context.organization_id()?,
        team_id: context.project.as_ref().map(|project| TeamId(project.id)),
    })
}

/// Who changes exports, and what they may be made of here.
fn writer<'a>(context: &'a Context, actor: &'a Actor) -> Result<ExportWriter<'a>, ApiError> {
    let services = &context.services;
    Ok(ExportWriter {
        actor,
        place: place(context)?,
        key: &services.secret_key,
        limits: DestinationLimits {
            allow_private: services.config.allow_private_destinations,
            is_public,
            export_root: services.config.export_root.as_deref(),
        },
    })
}

/// A time of the query. What cannot be used is an error: without it the list would be another.
fn time_of(context: &Context, name: &str) -> Result<Option<UtcTime>, ApiError> {
    let Some(text) = context.query(name) else {
        return Ok(None);
    };
    // A plus that nobody encoded has become a space.
    let parsed = timestamp::parse(&text).or_else(|| timestamp::parse(&text.replace(' ', "+")));
    let detail = "Give a time with a zone in ISO 8601, such as 2025-03-01T10:00:00Z.";
    let refused = || ApiError::invalid("invalid_input", Some(name), detail);
    parsed.map(Some).ok_or_else(refused)
}

fn timestamp_of(time: Option<UtcTime>) -> Option<Timestamp> {
    time.map(Timestamp::from)
}
