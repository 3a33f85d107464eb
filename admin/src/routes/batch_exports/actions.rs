//! Operations that pause, unpause and backfill; each returns the whole export.

use super::bodies::ExportBody;
use super::paths::{FEATURE, Paths, WRITE, place};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::schema::Nothing;
use millrace_catalog::Patch;
use millrace_exports::{BackfillRange, Backfills, BatchExportView, BatchExports};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub(super) fn rows(paths: &Paths) -> Vec<Operation> {
    vec![
        Operation::action(paths.pause, pause)
            .about("Pause a batch export")
            .note(
                "No scheduled runs start until it is unpaused. Existing runs and backfills go on: \
                             cancel those that you do not want. The body is ignored.",
            )
            .scopes(&WRITE)
            .pipelines_level(),
        Operation::action(paths.unpause, unpause)
            .about("Unpause a batch export")
            .limited_by(&[
                Limit::OpenBackfills,
                Limit::OrganizationBackfills,
                Limit::ExportRuns,
            ])
            .note("Other fields of the body are ignored.")
            .scopes(&WRITE)
            .feature(FEATURE)
            .pipelines_level()
            .fails(400, "invalid_choice", INTERVAL_UNKNOWN),
        Operation::action(paths.backfill, backfill)
            .about("Backfill a batch export")
            .limited_by(&[
                Limit::OpenBackfills,
                Limit::OrganizationBackfills,
                Limit::ExportRuns,
            ])
            .note(
                "Exports the rows of a range in the past. A paused export can be backfilled, too; it \
                             stays paused. Other fields of the body are ignored. If the range has no rows, or no \
                             window of it has ended, the backfill has no runs and is complete at once; its \
                             `message` and the export's log say why.",
            )
            .scopes(&WRITE)
            .feature(FEATURE)
            .pipelines_level()
            .fails(400, "invalid_input", "The range is invalid, or ends too far in the future.")
            .fails(400, "invalid_choice", INTERVAL_UNKNOWN),
    ]
}

/// Reason for which what depends on an export's windows fails.
pub(super) const INTERVAL_UNKNOWN: &str =
    "The export has an interval that this version does not know: change it first.";

/// Options for unpausing an export.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "BatchExportUnpause")]
#[serde(default)]
struct UnpauseBody {
    /// True to export the rows of the pause, too.
    backfill: Patch<bool>,
}

/// A batch export and its new backfill.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportWithBackfill")]
struct BackfilledBody {
    #[serde(flatten)]
    export: ExportBody,
    /// Id of the backfill; null if none was requested or nothing was missed. `backfills/` has its
    /// progress, and the reason if it has no runs.
    backfill_id: Option<Uuid>,
}

async fn pause(context: Context, _: Nothing) -> Result<ExportBody, ApiError> {
    let (actor, id) = (context.actor()?, context.uuid("id")?);
    let paused = context.batch_exports().pause(&actor, place(&context)?, id);
    Ok(paused.await?.into())
}

async fn unpause(context: Context, body: UnpauseBody) -> Result<BackfilledBody, ApiError> {
    let (actor, id) = (context.actor()?, context.uuid("id")?);
    let with_backfill = body.backfill.sent().unwrap_or(false);
    let unpaused = context
        .batch_exports()
        .unpause(&actor, place(&context)?, id, with_backfill);
    let unpaused = unpaused.await?;
    Ok(backfilled(
        unpaused.view,
        unpaused.backfill.map(|backfill| backfill.id),
    ))
}

async fn backfill(context: Context, range: BackfillRange) -> Result<BackfilledBody, ApiError> {
    let (actor, place, id) = (context.actor()?, place(&context)?, context.uuid("id")?);
    let catalog = context.catalog();
    let started = Backfills::new(catalog).start(&actor, place, id, range);
    let backfill_id = Some(started.await?.id);
    let view = BatchExports::new(catalog).get(place, id).await?;
    let view = view.ok_or_else(ApiError::not_found)?;
    Ok(backfilled(view, backfill_id))
}

fn backfilled(view: BatchExportView, backfill_id: Option<Uuid>) -> BackfilledBody {
    BackfilledBody {
        export: view.into(),
        backfill_id,
    }
}
