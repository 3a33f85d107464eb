//! Question for numbers of events, as a query asks it, and its answer.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Limit;
use crate::project_stats::{StatsAnswer, StatsGrouping, StatsQuestion, StatsStep};
use millrace_catalog::{RequiredScope, UtcTime};

pub(super) const READ: [RequiredScope; 1] = [RequiredScope::read("event")];
/// Limits of questions to ClickHouse.
pub(super) const LIMITS: [Limit; 2] = [Limit::Queries, Limit::AllQueries];

const MICROS_PER_SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;
/// End of the times that ClickHouse's type has, in seconds since 1970.
const SECONDS_MAX: i64 = u32::MAX as i64;

/// Groupings with their names.
type Groupings = [(&'static str, StatsGrouping)];

/// Groupings of a project's events.
pub(super) const OF_PROJECT: [(&str, StatsGrouping); 3] = [
    ("event", StatsGrouping::Event),
    ("sdk", StatsGrouping::Sdk),
    ("code", StatsGrouping::Code),
];
/// Groupings of an organization's events.
pub(super) const OF_ORGANIZATION: [(&str, StatsGrouping); 4] = [
    ("project", StatsGrouping::Project),
    ("event", StatsGrouping::Event),
    ("sdk", StatsGrouping::Sdk),
    ("code", StatsGrouping::Code),
];

/// Reads the question that a query asks about some projects.
///
/// # Errors
///
/// 400 if a parameter is invalid, or the time too long for its step.
pub(super) fn question(
    context: &Context,
    project_ids: Vec<i64>,
    groupings: &Groupings,
) -> Result<StatsQuestion, ApiError> {
    let step = step(context)?;
    let grouping = grouping(context, groupings)?;
    let now = context.catalog().now();
    let before = context.query_time("before")?.unwrap_or(now);
    let before = aligned(before, step, Rounding::Up);
    let after = match context.query_time("after")? {
        Some(after) => aligned(after, step, Rounding::Down),
        None => before - default_seconds(step),
    };
    let is_valid = 0 <= after && after < before && before <= SECONDS_MAX;
    let seconds_max = seconds_max(step, grouping);
    if !is_valid || before - after > seconds_max {
        let detail = format!(
            "Give a time before `before`, by at most {} with this step.",
            span(seconds_max)
        );
        return Err(ApiError::invalid("invalid_input", Some("after"), detail));
    }
    Ok(StatsQuestion {
        project_ids,
        step,
        after: time(after),
        before: time(before),
        grouping,
    })
}

fn step(context: &Context) -> Result<StatsStep, ApiError> {
    match context.query("step").as_deref() {
        Some("minute") => Ok(StatsStep::Minute),
        None | Some("hour") => Ok(StatsStep::Hour),
        Some("day") => Ok(StatsStep::Day),
        Some(_) => {
            let detail = "Give minute, hour or day.";
            Err(ApiError::invalid("invalid_choice", Some("step"), detail))
        }
    }
}

fn grouping(context: &Context, groupings: &Groupings) -> Result<StatsGrouping, ApiError> {
    let Some(asked) = context.query("by") else {
        return Ok(StatsGrouping::None);
    };
    let found = groupings.iter().find(|(name, _)| *name == asked);
    found.map(|(_, grouping)| *grouping).ok_or_else(|| {
        let names: Vec<&str> = groupings.iter().map(|(name, _)| *name).collect();
        let detail = format!("Give one of {}.", names.join(", "));
        ApiError::invalid("invalid_choice", Some("by"), detail)
    })
}

/// Length of the time if a query has no beginning.
const fn default_seconds(step: StatsStep) -> i64 {
    match step {
        StatsStep::Minute => HOUR,
        StatsStep::Hour => DAY,
        StatsStep::Day => 30 * DAY,
    }
}

/// Longest time, so that an answer fits into a page.
fn seconds_max(step: StatsStep, grouping: StatsGrouping) -> i64 {
    let is_grouped = grouping != StatsGrouping::None;
    match (step, is_grouped) {
        (StatsStep::Minute, false) => DAY,
        (StatsStep::Minute, true) => 6 * HOUR,
        (StatsStep::Hour, false) => 31 * DAY,
        (StatsStep::Hour, true) => 8 * DAY,
        (StatsStep::Day, false) => 731 * DAY,
        (StatsStep::Day, true) => 366 * DAY,
    }
}

fn span(seconds: i64) -> String {
    match seconds / DAY {
        0 => format!("{} hours", seconds / HOUR),
        1 => "a day".to_owned(),
        days => format!("{days} days"),
    }
}

#[derive(Clone, Copy)]
enum Rounding {
    Down,
    Up,
}

/// Beginning of the step of a time, or of the next one, in seconds since 1970.
fn aligned(at: UtcTime, step: StatsStep, rounding: Rounding) -> i64 {
    let seconds = match rounding {
        Rounding::Down => at.0.div_euclid(MICROS_PER_SECOND),
        // The second in which the time is ends behind it.
        Rounding::Up => {
            at.0.saturating_add(MICROS_PER_SECOND - 1)
                .div_euclid(MICROS_PER_SECOND)
        }
    };
    let past = seconds.rem_euclid(step.seconds());
    match (rounding, past) {
        (Rounding::Up, 1..) => seconds - past + step.seconds(),
        _ => seconds - past,
    }
}

const fn time(seconds: i64) -> UtcTime {
    UtcTime(seconds.saturating_mul(MICROS_PER_SECOND))
}

/// Ids of the projects of the path's organization.
///
/// # Errors
///
/// 404 if there is no such organization, or those of the catalog.
pub(super) async fn project_ids(context: &Context) -> Result<Vec<i64>, ApiError> {
    let organization_id = context.organization_id()?;
    let projects = context.projects().list_all(Some(organization_id)).await?;
    Ok(projects.into_iter().map(|project| project.id).collect())
}

/// Asks for sums, in a slot of the organization.
///
/// # Errors
///
/// 503 while ClickHouse cannot be asked, and 429 without a free slot.
pub(super) async fn read(
    context: &Context,
    question: StatsQuestion,
) -> Result<StatsAnswer, ApiError> {
    let project_stats = context.project_stats()?;
    let _permit = context.query_permit().await?;
    Ok(project_stats.read(question).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_whole_steps() {
        let table = [
            (
                "2026-11-20T10:00:00Z",
                StatsStep::Hour,
                (10 * HOUR, 10 * HOUR),
            ),
            (
                "2026-11-20T10:00:01Z",
                StatsStep::Hour,
                (10 * HOUR, 11 * HOUR),
            ),
            (
                "2026-11-20T10:00:00.000001Z",
                StatsStep::Minute,
                (10 * HOUR, 10 * HOUR + 60),
            ),
            ("2026-11-20T23:59:59.999999Z", StatsStep::Day, (0, DAY)),
            ("2026-11-20T02:00:00+02:00", StatsStep::Day, (0, 0)),
        ];
        let day = UtcTime::parse("2026-11-20T00:00:00Z").unwrap();
        for (text, step, expected) in table {
            let at = UtcTime::parse(text).unwrap();
            let found = [Rounding::Down, Rounding::Up]
                .map(|rounding| aligned(at, step, rounding) - day.0 / MICROS_PER_SECOND);
            assert_eq!((found[0], found[1]), expected, "{text}");
        }
    }
}
