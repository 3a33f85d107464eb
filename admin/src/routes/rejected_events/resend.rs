//! `/api/projects/:project_id/rejected_events/resend/`: rejected events, sent again with changes.

use super::selection::{LIMITS, TOO_MUCH, checked_code};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::rejected_events::{
    RESEND_EVENTS_MAX, RejectedId, RejectedSelection, Resend, ResendReport,
};
use millrace_catalog::{Patch, RequiredScope, UtcTime};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use uuid::Uuid;

const RESEND: &str = "/api/projects/{project_id}/rejected_events/resend/";
/// Scope of whoever sends events in the project's name.
const WRITE: [RequiredScope; 1] = [RequiredScope::write("event")];
/// Events of a resend, if a body does not say.
const LIMIT_DEFAULT: u32 = 100;

/// Operation that sends events again.
pub(super) fn operation() -> Operation {
    Operation::action(RESEND, resend)
        .about("Send rejected events again, with changes")
        .note(
            "Unless `dry_run` is false, the server checks the events as they would be sent, and \
             stores nothing. The newest of the selected events are taken. Their fields are \
             renamed, then dropped, then set: fields of the event by their names, those of its properties \
             as `properties.plan`. An event without a `uuid` or `timestamp` gets one that each \
             resend of it has. Accepted events are marked as sent again, and are not taken any \
             more; others stay as they were, under their first reason. A resend takes some \
             seconds at most: what it has not tried is left for the next one.",
        )
        .scopes(&WRITE)
        .waits_outside()
        .large_response()
        .limited_by(&LIMITS)
        .limited_by(&[Limit::ResentEvents])
        .fails(400, "query_limit_exceeded", TOO_MUCH)
        .fails(403, "permission_denied", "The server of the API accepts no events.")
        .fails(
            409,
            "resend_in_doubt",
            "A request of an earlier resend of the project has no answer still.",
        )
}

/// Rejected events that are to be sent again, and their changes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "NewRejectedEventResend")]
struct ResendBody {
    /// Ids of the events; any if not given, or if there is none.
    #[schemars(length(max = RESEND_EVENTS_MAX))]
    events: Patch<Vec<String>>,
    /// Only events that were rejected with this code.
    code: Patch<String>,
    /// Only events that were received at this time or later.
    after: Patch<UtcTime>,
    /// Only events that were received earlier.
    before: Patch<UtcTime>,
    /// Only events of this request.
    request_id: Patch<Uuid>,
    /// True to take events that were sent again before, too.
    resent: Patch<bool>,
    /// Most events, 100 if not given; the newest are taken.
    #[schemars(range(min = 1, max = RESEND_EVENTS_MAX))]
    limit: Patch<u32>,
    /// Fields to rename, with their new names.
    rename: Patch<BTreeMap<String, String>>,
    /// Fields to drop.
    drop: Patch<Vec<String>>,
    /// Fields to set, with their values.
    set: Patch<BTreeMap<String, Value>>,
    /// False to send the events; otherwise they are checked.
    dry_run: Patch<bool>,
}

impl ResendBody {
    /// Resend of a project's events.
    ///
    /// # Errors
    ///
    /// 400 for a code or an id that no event has, and for a field without a name.
    fn of_project(self, project_id: i64) -> Result<Resend, ApiError> {
        let events = self.events.sent().unwrap_or_default();
        let resend = Resend {
            selection: RejectedSelection {
                project_id,
                code: self.code.sent().map(checked_code).transpose()?,
                after: self.after.sent(),
                before: self.before.sent(),
                request_id: self.request_id.sent(),
                chosen: ids(&events)?,
                unsent: !self.resent.sent().unwrap_or_default(),
            },
            limit: self.limit.sent().unwrap_or(LIMIT_DEFAULT),
            rename: pairs(self.rename),
            drop: self.drop.sent().unwrap_or_default(),
            set: pairs(self.set),
            // A change is tried before it is made.
            is_dry_run: self.dry_run.sent().unwrap_or(true),
        };
        let renamed = resend.rename.iter();
        let is_nameless = [
            renamed
                .flat_map(|(from, to)| [from, to])
                .any(String::is_empty),
            resend.drop.iter().any(String::is_empty),
            resend.set.iter().any(|(name, _)| name.is_empty()),
        ];
        for (attr, has_nameless) in ["rename", "drop", "set"].into_iter().zip(is_nameless) {
            if has_nameless {
                let detail = "A field has a name of one character at least.";
                return Err(ApiError::invalid("invalid_input", Some(attr), detail));
            }
        }
        Ok(resend)
    }
}

/// Ids of events.
///
/// # Errors
///
/// 400 for the first text that is none.
fn ids(texts: &[String]) -> Result<Vec<RejectedId>, ApiError> {
    let id = |(index, text): (usize, &String)| {
        let refused = |()| {
            let attr = format!("events__{index}");
            let detail = "This is no id of a rejected event.";
            ApiError::invalid("invalid_input", Some(attr.as_str()), detail)
        };
        text.parse::<RejectedId>().map_err(refused)
    };
    texts.iter().enumerate().map(id).collect()
}

/// Names and values of an object; none if it was not sent.
fn pairs<T>(sent: Patch<BTreeMap<String, T>>) -> Vec<(String, T)> {
    let pairs = sent.sent().unwrap_or_default();
    pairs.into_iter().collect()
}

async fn resend(context: Context, body: ResendBody) -> Result<ResendReport, ApiError> {
    let actor = context.actor()?;
    let resend = body.of_project(context.project()?.id)?;
    let rejected_events = context.rejected_events()?;
    let _permit = context.query_permit().await?;
    Ok(rejected_events.resend(&actor, resend).await?)
}
