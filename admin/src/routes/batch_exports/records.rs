//! Operations that list, create, read, change and delete exports.

use super::bodies::ExportBody;
use super::changes::{NewBody, PatchBody};
use super::paths::{FEATURE, Paths, READ, WRITE, place, writer};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::page::Envelope;

pub(super) fn rows(paths: &Paths) -> Vec<Operation> {
    vec![
        Operation::list(paths.all, list)
            .about("List batch exports")
            .note("Each with its newest runs; oldest export first.")
            .scopes(&READ),
        Operation::create(paths.all, create)
            .about("Create a batch export")
            .limited_by(&[Limit::BatchExports, Limit::ExportRuns])
            .note("Secrets of the destination are encrypted and never returned.")
            .scopes(&WRITE)
            .feature(FEATURE)
            .pipelines_level()
            .fails(400, "invalid_choice", "The interval is unknown.")
            .fails(
                400,
                "invalid_input",
                "The destination, the query or the project is invalid.",
            ),
        Operation::get(paths.one, retrieve)
            .about("Read a batch export")
            .note("Its `ETag` leaves out `latest_runs`.")
            .live_fields(&["latest_runs"])
            .scopes(&READ),
        Operation::patch(paths.one, &["name", "destination", "interval"], update)
            .about("Change a batch export")
            .note("Fields of the destination that are not named stay, secrets too.")
            .scopes(&WRITE)
            .feature(FEATURE)
            .pipelines_level()
            .fails(400, "invalid_choice", "The interval is unknown.")
            .fails(
                400,
                "invalid_input",
                "The destination or the query is invalid.",
            ),
        Operation::delete(paths.one, delete)
            .about("Delete a batch export")
            .note("Its runs and logs are deleted, too. Exported data stays at the destination.")
            .scopes(&WRITE)
            .pipelines_level(),
    ]
}

async fn list(context: Context) -> Result<Envelope<ExportBody>, ApiError> {
    let (place, page) = (place(&context)?, context.page());
    let read = |page| context.batch_exports().list(place, page);
    context.list(page, read).await
}

async fn create(context: Context, new: NewBody) -> Result<ExportBody, ApiError> {
    let actor = context.actor()?;
    let (writer, new) = (writer(&context, &actor)?, new.checked()?);
    let made = context.batch_exports().create(writer, new).await?;
    Ok(made.into())
}

async fn retrieve(context: Context) -> Result<ExportBody, ApiError> {
    let (place, id) = (place(&context)?, context.uuid("id")?);
    let found = context.batch_exports().get(place, id).await?;
    found.map(ExportBody::from).ok_or_else(ApiError::not_found)
}

async fn update(context: Context, patch: PatchBody) -> Result<ExportBody, ApiError> {
    let (actor, id) = (context.actor()?, context.uuid("id")?);
    let (writer, change) = (writer(&context, &actor)?, patch.checked()?);
    let changed = context.batch_exports().update(writer, id, change);
    Ok(changed.await?.into())
}

async fn delete(context: Context) -> Result<(), ApiError> {
    let (actor, id) = (context.actor()?, context.uuid("id")?);
    let deleted = context.batch_exports().delete(&actor, place(&context)?, id);
    Ok(deleted.await?)
}
