//! Operations that list, create, read and cancel backfills.

use super::actions::INTERVAL_UNKNOWN;
use super::bodies::BackfillBody;
use super::paths::{FEATURE, Paths, READ, WRITE, place};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use crate::schema::Nothing;
use millrace_exports::BackfillRange;

pub(super) fn rows(paths: &Paths) -> Vec<Operation> {
    vec![
        Operation::list(paths.backfills, list)
            .about("List the backfills of a batch export")
            .note("The newest is first.")
            .scopes(&READ),
        Operation::create(paths.backfills, create)
            .about("Create a backfill")
            .limited_by(&[
                Limit::OpenBackfills,
                Limit::OrganizationBackfills,
                Limit::ExportRuns,
            ])
            .scopes(&WRITE)
            .feature(FEATURE)
            .pipelines_level()
            .fails(
                400,
                "invalid_input",
                "The range is invalid, or ends too far in the future.",
            )
            .fails(400, "invalid_choice", INTERVAL_UNKNOWN),
        Operation::get(paths.one_backfill, retrieve)
            .about("Read the progress of a backfill")
            .scopes(&READ),
        Operation::action(paths.cancel_backfill, cancel)
            .about("Cancel a backfill and its runs")
            .scopes(&WRITE)
            .pipelines_level()
            .fails(400, "invalid_input", "The backfill has ended."),
    ]
}

async fn list(context: Context) -> Result<Envelope<BackfillBody>, ApiError> {
    let (place, id, page) = (place(&context)?, context.uuid("id")?, context.page());
    let read = async |page| {
        let found = context.backfills().list(place, id, page);
        found.await?.ok_or_else(ApiError::not_found)
    };
    context.list(page, read).await
}

async fn create(context: Context, range: BackfillRange) -> Result<BackfillBody, ApiError> {
    let (actor, place, id) = (context.actor()?, place(&context)?, context.uuid("id")?);
    let started = context.backfills().start(&actor, place, id, range);
    Ok(started.await?.into())
}

async fn retrieve(context: Context) -> Result<BackfillBody, ApiError> {
    let (place, id) = (place(&context)?, context.uuid("id")?);
    let backfill_id = context.uuid("backfill_id")?;
    let found = context.backfills().get(place, id, backfill_id).await?;
    found
        .map(BackfillBody::from)
        .ok_or_else(ApiError::not_found)
}

async fn cancel(context: Context, _: Nothing) -> Result<BackfillBody, ApiError> {
    let (actor, place, id) = (context.actor()?, place(&context)?, context.uuid("id")?);
    let backfill_id = context.uuid("backfill_id")?;
    let cancelled = context.backfills().cancel(&actor, place, id, backfill_id);
    Ok(cancelled.await?.into())
}
