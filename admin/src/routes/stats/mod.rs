//! `/api/projects/:project_id/stats/` and `/api/organizations/:organization_id/stats/`: numbers of
//! events by time. `usage` has them as a table for bills.

mod question;
mod usage;

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::project_stats::{EventCounts, StatsGrouping, StatsQuestion, StatsStep};
use millrace_catalog::UtcTime;
use question::{LIMITS, OF_ORGANIZATION, OF_PROJECT, READ, project_ids, question, read};
use schemars::JsonSchema;
use serde::Serialize;

const OF_A_PROJECT: &str = "/api/projects/{project_id}/stats/";
const OF_AN_ORGANIZATION: &str = "/api/organizations/{organization_id}/stats/";
const NOTE: &str = "Events are counted a minute or two after they were accepted, rejected ones \
    after a quarter of an hour: `accepted_until` and `rejected_until` say before which time all are. \
    Steps without events are left out. Of names the twenty most frequent ones of the time are kept \
    apart; `name` is null for the others, so sums are exact.";

/// Operations of numbers of events.
pub(crate) fn operations() -> Vec<Operation> {
    let asked = |operation: Operation, groupings: &'static str| {
        operation
            .note(NOTE)
            .query("step", "string", "`minute`, `hour` (the default) or `day`.")
            .query(
                "after",
                "string",
                "Beginning of the time: by minute within a day (six hours with `by`), by hour \
                 within 31 days (8 with `by`), by day within two years (one with `by`).",
            )
            .query("before", "string", "End of the time; now if not given.")
            .query("by", "string", groupings)
            .scopes(&READ)
            .waits_outside()
            .large_response()
            .limited_by(&LIMITS)
            .fails(
                400,
                "invalid_input",
                "The time is invalid, or too long for the step.",
            )
            .fails(400, "invalid_choice", "There is no such step or grouping.")
            .fails(
                400,
                "query_limit_exceeded",
                "This takes more time or memory than it may.",
            )
    };
    vec![
        asked(
            Operation::get(OF_A_PROJECT, of_project),
            "Grouping: accepted events by `event` or `sdk`, rejected ones by `code`.",
        )
        .about("Count the events of a project"),
        asked(
            Operation::get(OF_AN_ORGANIZATION, of_organization),
            "Grouping: by `project`, accepted events by `event` or `sdk`, rejected ones by `code`.",
        )
        .about("Count the events of an organization"),
        usage::operation(),
    ]
}

/// Numbers of events by time.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "EventStats")]
struct StatsBody {
    /// Step of the sums.
    step: StatsStep,
    /// Beginning of the time.
    after: UtcTime,
    /// End of the time.
    before: UtcTime,
    /// Time from which events are counted at all.
    since: UtcTime,
    /// Time before which all accepted events are counted.
    accepted_until: UtcTime,
    /// Time before which all rejected events are counted.
    rejected_until: UtcTime,
    /// Sums of all steps and groups.
    totals: EventCounts,
    /// Sums of steps and groups, by time and name.
    results: Vec<SumBody>,
}

/// Numbers of events of one step and group.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "EventStatsStep")]
struct SumBody {
    /// Beginning of the step.
    at: UtcTime,
    /// Name of the group; null for the rest, and without a grouping. Projects have their ids.
    name: Option<String>,
    #[serde(flatten)]
    counts: EventCounts,
}

async fn of_project(context: Context) -> Result<StatsBody, ApiError> {
    let projects = vec![context.project()?.id];
    let question = question(&context, projects, &OF_PROJECT)?;
    answer(&context, question).await
}

async fn of_organization(context: Context) -> Result<StatsBody, ApiError> {
    let projects = project_ids(&context).await?;
    let question = question(&context, projects, &OF_ORGANIZATION)?;
    answer(&context, question).await
}

async fn answer(context: &Context, question: StatsQuestion) -> Result<StatsBody, ApiError> {
    let (step, after, before) = (question.step, question.after, question.before);
    let is_grouped = question.grouping != StatsGrouping::None;
    let answer = read(context, question).await?;
    let mut totals = EventCounts::default();
    let results = answer.sums.into_iter().map(|sum| {
        totals.add(sum.counts);
        SumBody {
            at: sum.at,
            name: Some(sum.name).filter(|name| is_grouped && !name.is_empty()),
            counts: sum.counts,
        }
    });
    let results = results.collect();
    Ok(StatsBody {
        step,
        after,
        before,
        since: answer.since,
        accepted_until: answer.accepted_until,
        rejected_until: answer.rejected_until,
        totals,
        results,
    })
}
