//! `/api/projects/:project_id/rejected_events/`: events that the server rejected, with the reason.

mod resend;
mod selection;

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::page::Envelope;
use crate::rejected_events::{RejectedEvent, RejectedEventText, RejectedGroup, RejectedId};
use millrace_catalog::RequiredScope;
use schemars::JsonSchema;
use selection::{LIMITS, TOO_MUCH};
use serde::Serialize;

const ALL: &str = "/api/projects/{project_id}/rejected_events/";
const GROUPS: &str = "/api/projects/{project_id}/rejected_events/groups/";
const ONE: &str = "/api/projects/{project_id}/rejected_events/{id}/";
const READ: [RequiredScope; 1] = [RequiredScope::read("event")];

/// Operations of rejected events.
pub(crate) fn operations() -> Vec<Operation> {
    let filtered = |operation: Operation| {
        operation
            .query(
                "code",
                "string",
                "Only events that were rejected with this code.",
            )
            .query(
                "after",
                "string",
                "Only events that were received at this time or later.",
            )
            .query(
                "before",
                "string",
                "Only events that were received earlier.",
            )
            .query("request_id", "string", "Only events of this request.")
            .query(
                "unsent",
                "boolean",
                "True for events that were not sent again only.",
            )
            .scopes(&READ)
            .waits_outside()
            .limited_by(&LIMITS)
            .fails(400, "invalid_input", "A parameter is invalid.")
            .fails(400, "query_limit_exceeded", TOO_MUCH)
    };
    vec![
        filtered(Operation::list(ALL, list))
            .about("List the rejected events of a project")
            .note(
                "The newest is first. An event is in the list some seconds after the request that \
                 brought it was answered.",
            ),
        filtered(Operation::get(GROUPS, groups))
            .about("Count the rejected events of a project by code")
            .note("The code with the most events is first."),
        Operation::get(ONE, retrieve)
            .about("Read a rejected event with its JSON")
            .large_response()
            .waits_outside()
            .limited_by(&LIMITS)
            .scopes(&READ),
        resend::operation(),
    ]
}

/// Rejected events by code.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RejectedEventGroups")]
struct GroupsBody {
    /// Groups, the largest first; a thousand at most.
    results: Vec<RejectedGroup>,
}

async fn list(context: Context) -> Result<Envelope<RejectedEvent>, ApiError> {
    let selection = selection::of_query(&context)?;
    let rejected_events = context.rejected_events()?;
    let _permit = context.query_permit().await?;
    let read = async |page| rejected_events.list(&selection, page).await;
    context.list(context.page(), read).await
}

async fn groups(context: Context) -> Result<GroupsBody, ApiError> {
    let selection = selection::of_query(&context)?;
    let rejected_events = context.rejected_events()?;
    let _permit = context.query_permit().await?;
    let results = rejected_events.groups(&selection).await?;
    Ok(GroupsBody { results })
}

async fn retrieve(context: Context) -> Result<RejectedEventText, ApiError> {
    let project_id = context.project()?.id;
    let id = context.text("id").parse::<RejectedId>();
    let id = id.map_err(|()| ApiError::not_found())?;
    let rejected_events = context.rejected_events()?;
    let _permit = context.query_permit().await?;
    let found = rejected_events.get(project_id, id).await?;
    found.ok_or_else(ApiError::not_found)
}
