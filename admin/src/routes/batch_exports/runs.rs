//! Operations that list, read, retry and cancel runs.

use super::bodies::RunBody;
use super::paths::{FEATURE, Paths, READ, WRITE, place};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use crate::schema::Nothing;
use millrace_exports::{RunFilter, RunOrder};

pub(super) fn rows(paths: &Paths) -> Vec<Operation> {
    vec![
        Operation::list(paths.runs, list)
            .about("List the runs of a batch export")
            .note("Newest first.")
            .query(
                "after",
                "string",
                "Only runs created at this time or later.",
            )
            .query("before", "string", "Only runs created before this time.")
            .query(
                "start",
                "string",
                "Only runs whose window starts at this time or later.",
            )
            .query(
                "end",
                "string",
                "Only runs whose window starts before this time.",
            )
            .query(
                "ordering",
                "string",
                "`data_interval_start` or `-data_interval_start`: by window.",
            )
            .scopes(&READ)
            .fails(400, "invalid_input", "A time is invalid."),
        Operation::get(paths.run, retrieve)
            .about("Read a run")
            .scopes(&READ),
        Operation::action(paths.retry, retry)
            .about("Retry a run that has ended")
            .limited_by(&[Limit::ExportRuns])
            .note("The run has the same window, and overwrites only what it wrote before.")
            .scopes(&WRITE)
            .feature(FEATURE)
            .pipelines_level()
            .fails(400, "invalid_input", "The run has not ended."),
        Operation::action(paths.cancel, cancel)
            .about("Cancel a run")
            .scopes(&WRITE)
            .pipelines_level()
            .fails(400, "invalid_input", "The run has ended."),
    ]
}

async fn list(context: Context) -> Result<Envelope<RunBody>, ApiError> {
    let (place, id, page) = (place(&context)?, context.uuid("id")?, context.page());
    let filter = RunFilter {
        after: context.query_time("after")?,
        before: context.query_time("before")?,
        start: context.query_time("start")?,
        end: context.query_time("end")?,
        order: match context.query("ordering").as_deref() {
            Some("data_interval_start") => RunOrder::EarliestWindowFirst,
            Some("-data_interval_start") => RunOrder::LatestWindowFirst,
            _ => RunOrder::NewestFirst,
        },
    };
    let read = async |page| {
        let found = context.export_runs().list(place, id, filter, page);
        found.await?.ok_or_else(ApiError::not_found)
    };
    context.list(page, read).await
}

async fn retrieve(context: Context) -> Result<RunBody, ApiError> {
    let (place, id, run_id) = (
        place(&context)?,
        context.uuid("id")?,
        context.uuid("run_id")?,
    );
    let found = context.export_runs().get(place, id, run_id).await?;
    found.map(RunBody::from).ok_or_else(ApiError::not_found)
}

async fn retry(context: Context, _: Nothing) -> Result<RunBody, ApiError> {
    let (place, id, run_id) = (
        place(&context)?,
        context.uuid("id")?,
        context.uuid("run_id")?,
    );
    let actor = context.actor()?;
    let retried = context.export_runs().retry(&actor, place, id, run_id);
    Ok(retried.await?.into())
}

async fn cancel(context: Context, _: Nothing) -> Result<RunBody, ApiError> {
    let (place, id, run_id) = (
        place(&context)?,
        context.uuid("id")?,
        context.uuid("run_id")?,
    );
    let actor = context.actor()?;
    let cancelled = context.export_runs().cancel(&actor, place, id, run_id);
    Ok(cancelled.await?.into())
}
