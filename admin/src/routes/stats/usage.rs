//! `/api/organizations/:organization_id/usage/`: numbers of events of a month as CSV, for bills.

use super::question::{LIMITS, READ, project_ids, read};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::project_stats::{StatsAnswer, StatsGrouping, StatsQuestion, StatsStep};
use crate::response::Csv;
use millrace_catalog::UtcTime;
use std::fmt::Write as _;

const USAGE: &str = "/api/organizations/{organization_id}/usage/";
/// Names of the columns.
const HEAD: &str = "day,project_id,accepted,rejected,historical,bytes,is_final\n";
const DAY_MICROS: i64 = 86_400_000_000;

/// Operation that reads the usage of a month.
pub(super) fn operation() -> Operation {
    Operation::get(USAGE, usage)
        .about("Read the usage of a month as CSV")
        .note(
            "A line for each day in UTC and project with events: `day`, `project_id`, the numbers \
             of `accepted`, `rejected` and `historical` events, the `bytes` of the properties of \
             accepted ones, and `is_final`, which is `true` once all events of the day are \
             counted. Projects that are deleted are left out.",
        )
        .query(
            "month",
            "string",
            "Month, as in `2026-11`; this one if not given.",
        )
        .scopes(&READ)
        .waits_outside()
        .large_response()
        .limited_by(&LIMITS)
        .fails(400, "invalid_input", "There is no such month.")
        .fails(
            400,
            "query_limit_exceeded",
            "This takes more time or memory than it may.",
        )
}

async fn usage(context: Context) -> Result<Csv, ApiError> {
    let month = match context.query("month") {
        Some(month) => month,
        // The day without its own number.
        None => context.catalog().now().day().chars().take(7).collect(),
    };
    let Some((after, before)) = month_of(&month) else {
        let detail = "Give a month since 1970, as in 2026-11.";
        return Err(ApiError::invalid("invalid_input", Some("month"), detail));
    };
    let question = StatsQuestion {
        project_ids: project_ids(&context).await?,
        step: StatsStep::Day,
        after,
        before,
        grouping: StatsGrouping::EachProject,
    };
    let answer = read(&context, question).await?;
    Ok(Csv::of(table(&answer)))
}

/// Beginning and end of a month, such as `2026-11`; `None` for other texts, and for months that
/// ClickHouse's type for times does not have.
fn month_of(text: &str) -> Option<(UtcTime, UtcTime)> {
    let (year, month) = text.split_once('-')?;
    let is_number = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(year, 4) || !is_number(month, 2) {
        return None;
    }
    let (year, month): (i32, i32) = (year.parse().ok()?, month.parse().ok()?);
    let next = match month {
        12 => (year + 1, 1),
        _ => (year, month + 1),
    };
    let beginning =
        |(year, month): (i32, i32)| UtcTime::parse(&format!("{year:04}-{month:02}-01T00:00:00Z"));
    (1_970..2_106).contains(&year).then_some(())?;
    Some((beginning((year, month))?, beginning(next)?))
}

/// Table of the usage. Its values are numbers and days, which need no quotes.
fn table(answer: &StatsAnswer) -> String {
    let counted_until = answer.accepted_until.min(answer.rejected_until);
    let mut table = HEAD.to_owned();
    for sum in &answer.sums {
        let counts = sum.counts;
        let is_final = sum.at.plus_micros(DAY_MICROS) <= counted_until;
        // Nothing fails to be written to a text.
        let _ = writeln!(
            table,
            "{},{},{},{},{},{},{is_final}",
            sum.at.day(),
            sum.name,
            counts.accepted,
            counts.rejected,
            counts.historical,
            counts.bytes,
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project_stats::{EventCounts, StatsSum};

    #[test]
    fn a_month_ends_where_the_next_one_begins() {
        let table = [
            ("2026-11", Some(("2026-11-01", "2026-12-01"))),
            ("2026-12", Some(("2026-12-01", "2027-01-01"))),
            ("2105-12", Some(("2105-12-01", "2106-01-01"))),
            ("2106-01", None),
            ("1969-12", None),
            ("2026-13", None),
            ("2026-00", None),
            ("2026-1", None),
            ("2026-11-01", None),
            ("+202-11", None),
            ("", None),
        ];
        for (text, expected) in table {
            let found = month_of(text).map(|(after, before)| (after.day(), before.day()));
            let expected = expected.map(|(after, before)| (after.to_owned(), before.to_owned()));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_day_is_final_once_all_of_it_is_counted() {
        let at = |text: &str| UtcTime::parse(text).unwrap();
        let sum = |day: &str, name: &str| StatsSum {
            at: at(day),
            name: name.to_owned(),
            counts: EventCounts {
                accepted: 5,
                rejected: 1,
                historical: 2,
                bytes: 70,
            },
        };
        let answer = StatsAnswer {
            since: UtcTime(0),
            accepted_until: at("2026-11-21T10:00:00Z"),
            rejected_until: at("2026-11-21T00:00:00Z"),
            sums: vec![
                sum("2026-11-20T00:00:00Z", "7"),
                sum("2026-11-21T00:00:00Z", "12"),
            ],
        };
        let expected = "day,project_id,accepted,rejected,historical,bytes,is_final\n\
                        2026-11-20,7,5,1,2,70,true\n\
                        2026-11-21,12,5,1,2,70,false\n";
        assert_eq!(table(&answer), expected);
    }
}
