//! Pause, unpause, backfill: each answers the whole export.

use super::bodies::ExportBody;
use super::{FEATURE, Paths, WRITE, place};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::patch::Patch;
use crate::schema::Nothing;
use crate::timestamp::Timestamp;
use millrace_catalog::{BackfillRange, SeenBatchExport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub(super) fn rows(paths: &Paths) -> Vec<Operation> {
    vec![
        Operation::action(paths.pause, pause)
            .about("Pause a batch export")
            .note(
                "No windows come by the clock until it is unpaused. Runs that are there, and backfills, go on: cancel \
                 those that are not wanted. Nothing of the body is read.",
            )
            .scopes(&WRITE)
            .pipelines_level(),
        Operation::action(paths.unpause, unpause)
            .about("Let a batch export run again")
            .counted(&[
                Limit::OpenBackfills,
                Limit::OrganizationBackfills,
                Limit::ExportRuns,
            ])
            .note("Nothing else of the body is read.")
            .scopes(&WRITE)
            .feature(FEATURE)
            .pipelines_level(),
        Operation::action(paths.backfill, backfill)
            .about("Export past times")
            .counted(&[
                Limit::OpenBackfills,
                Limit::OrganizationBackfills,
                Limit::ExportRuns,
            ])
            .note(
                "A paused export can be backfilled, too; it stays paused. Nothing else of the body is read. A backfill without runs, as nothing lies in its range or no window \
                 of it has ended, is complete at once; its `message` and the export's log say why.",
            )
            .scopes(&WRITE)
            .feature(FEATURE)
            .pipelines_level()
            .fails(400, "invalid_input", "The range is none, or too late."),
    ]
}

/// How a paused export goes on.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "BatchExportUnpause")]
#[serde(default)]
struct UnpauseBody {
    /// Whether what was missed is exported, too.
    backfill: Patch<bool>,
}

/// Times whose rows are wanted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "BatchExportBackfillRange")]
#[serde(default)]
pub(super) struct RangeBody {
    /// From when on; null: from the beginning.
    start_at: Patch<Option<Timestamp>>,
    /// Until when; null: until now. One interval in the future at most.
    end_at: Patch<Option<Timestamp>>,
}

impl From<RangeBody> for BackfillRange {
    fn from(body: RangeBody) -> Self {
        let time = |sent: Patch<Option<Timestamp>>| sent.sent().flatten().map(|time| time.0);
        Self {
            start_at: time(body.start_at),
            end_at: time(body.end_at),
        }
    }
}

/// A batch export and a backfill that was made of it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportWithBackfill")]
struct BackfilledBody {
    #[serde(flatten)]
    export: ExportBody,
    /// Null if nothing was missed, or nobody asked for it. `backfills/` says how far it is, and why
    /// it has no runs if it has none.
    backfill_id: Option<Uuid>,
}

async fn pause(context: Context, _: Nothing) -> Result<ExportBody, ApiError> {
    let (actor, id) = (context.actor()?, context.uuid("id")?);
    let paused = context
        .catalog()
        .pause_batch_export(&actor, place(&context)?, id);
    Ok(paused.await?.into())
}

async fn unpause(context: Context, body: UnpauseBody) -> Result<BackfilledBody, ApiError> {
    let (actor, id) = (context.actor()?, context.uuid("id")?);
    let with_backfill = body.backfill.sent().unwrap_or(false);
    let unpaused =
        context
            .catalog()
            .unpause_batch_export(&actor, place(&context)?, id, with_backfill);
    let unpaused = unpaused.await?;
    Ok(backfilled(
        unpaused.seen,
        unpaused.backfill.map(|backfill| backfill.id),
    ))
}

async fn backfill(context: Context, range: RangeBody) -> Result<BackfilledBody, ApiError> {
    let (actor, place, id) = (context.actor()?, place(&context)?, context.uuid("id")?);
    let catalog = context.catalog();
    let started = catalog.start_export_backfill(&actor, place, id, range.into());
    let backfill_id = Some(started.await?.id);
    let seen = catalog.batch_export(place, id).await?;
    let seen = seen.ok_or_else(ApiError::not_found)?;
    Ok(backfilled(seen, backfill_id))
}

fn backfilled(seen: SeenBatchExport, backfill_id: Option<Uuid>) -> BackfilledBody {
    BackfilledBody {
        export: seen.into(),
        backfill_id,
    }
}
