//! Paths of batch exports, and what all of their operations need of a request.

use crate::context::Context;
use crate::error::ApiError;
use millrace_catalog::{Actor, Feature, ProjectId, RequiredScope, features};
use millrace_dial::addresses::is_public;
use millrace_exports::{DestinationLimits, ExportPlace, ExportWriter};

pub(super) const READ: [RequiredScope; 1] = [RequiredScope::read("batch_export")];
pub(super) const WRITE: [RequiredScope; 1] = [RequiredScope::write("batch_export")];
/// Feature for running exports. Without it they can still be read, paused, cancelled and deleted.
pub(super) const FEATURE: Feature = features::DATA_PIPELINES;

/// Paths of the operations below an organization or a project.
pub(super) struct Paths {
    pub(super) all: &'static str,
    pub(super) test: &'static str,
    pub(super) one: &'static str,
    pub(super) pause: &'static str,
    pub(super) unpause: &'static str,
    pub(super) backfill: &'static str,
    pub(super) logs: &'static str,
    pub(super) runs: &'static str,
    pub(super) run: &'static str,
    pub(super) retry: &'static str,
    pub(super) cancel: &'static str,
    pub(super) run_logs: &'static str,
    pub(super) backfills: &'static str,
    pub(super) one_backfill: &'static str,
    pub(super) cancel_backfill: &'static str,
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

pub(super) const PLACES: [Paths; 2] = [
    paths!("/api/organizations/{organization_id}/"),
    paths!("/api/projects/{project_id}/"),
];

/// Organization, and project if the path has one, whose exports the path means.
pub(super) fn place(context: &Context) -> Result<ExportPlace, ApiError> {
    Ok(ExportPlace {
        organization_id: context.organization_id()?,
        project_id: context
            .project
            .as_ref()
            .map(|project| ProjectId(project.id)),
    })
}

/// Actor who changes exports, with this server's limits on destinations.
pub(super) fn writer<'a>(
    context: &'a Context,
    actor: &'a Actor,
) -> Result<ExportWriter<'a>, ApiError> {
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
