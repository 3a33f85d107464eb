//! Reading of sums.
//!
//! Days that are over have a sum, and so have hours of the days since and minutes of the hour: each
//! event is in one of them. Where one ends and the next begins follows from how far a kind is
//! counted.

use super::{
    DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS, STATS, StatsKind, StatsProgress, begins_within,
    last_counted,
};
use crate::{ClickHouse, QueryError};
use serde::Deserialize;
use std::ops::Range;

/// Names that are kept apart, at most: the most frequent ones of the whole time.
const NAMES_MAX: u32 = 20;
/// Most rows of an answer: more than there are minutes of a day with their names, or days of a
/// month with the projects of an organization.
const ROWS_MAX: u32 = 50_000;

/// Grouping of sums, beside the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsGrouping {
    /// None: all events together.
    None,
    /// By project, the largest ones.
    Project,
    /// By project, each of them.
    EachProject,
    /// Accepted events by name.
    Event,
    /// Accepted events by SDK.
    Sdk,
    /// Rejected events by code.
    Code,
}

/// Question for sums.
#[derive(Clone, Debug)]
pub struct StatsQuery {
    /// Projects whose events are summed.
    pub project_ids: Vec<i64>,
    /// Step of the sums: that of a minute, an hour or a day.
    pub step_seconds: u32,
    /// Time, in seconds since 1970; it begins and ends at a step.
    pub seconds: Range<i64>,
    /// Grouping of the sums.
    pub grouping: StatsGrouping,
    /// Times before which events are counted.
    pub progress: StatsProgress,
    /// Most seconds of the query.
    pub seconds_max: u32,
}

/// Sum of one step and group.
#[derive(clickhouse::Row, Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct StatsRow {
    /// Beginning of the step, in seconds since 1970.
    pub at: u32,
    /// Name of the group; empty for all that are not kept apart, and without a grouping.
    pub name: String,
    /// Number of accepted events.
    pub accepted: u64,
    /// Number of rejected events.
    pub rejected: u64,
    /// Number of accepted events that were part of a historical migration.
    pub historical: u64,
    /// Bytes of the properties of accepted events.
    pub bytes: u64,
}

impl ClickHouse {
    /// Reads sums, by time and name.
    ///
    /// # Errors
    /// If the server cannot be asked, or takes too long.
    pub async fn stats(&self, query: &StatsQuery) -> Result<Vec<StatsRow>, QueryError> {
        if query.project_ids.is_empty() || query.seconds.is_empty() {
            return Ok(Vec::new());
        }
        let sql = statement(&self.source_named(STATS), query);
        let asked = self.seeing_quorum(self.client().query_raw(&sql));
        self.within_deadline(asked.fetch_all()).await
    }
}

fn statement(table: &str, query: &StatsQuery) -> String {
    let (group, kinds): (&str, &[StatsKind]) = match query.grouping {
        StatsGrouping::None => ("''", &StatsKind::ALL),
        StatsGrouping::Project | StatsGrouping::EachProject => {
            ("toString(team_id)", &StatsKind::ALL)
        }
        StatsGrouping::Event => ("event", &[StatsKind::Accepted]),
        StatsGrouping::Sdk => ("sdk", &[StatsKind::Accepted]),
        StatsGrouping::Code => ("toString(code)", &[StatsKind::Rejected]),
    };
    let ids: Vec<String> = query.project_ids.iter().map(i64::to_string).collect();
    let parts = kinds.iter().map(|kind| of_kind(*kind, query));
    let condition = format!(
        "team_id IN ({ids}) AND ({parts})",
        ids = ids.join(", "),
        parts = parts.collect::<Vec<_>>().join(" OR "),
    );
    let rows = format!(
        "SELECT {group} AS grouped, at, code, events, historical, bytes FROM {}",
        last_counted(table, &condition),
    );
    let kept = match query.grouping {
        StatsGrouping::None | StatsGrouping::EachProject => "grouped".to_owned(),
        _ => format!(
            "if(grouped IN (SELECT grouped FROM ({rows}) WHERE grouped != '' GROUP BY grouped \
             ORDER BY sum(events) DESC, grouped LIMIT {NAMES_MAX}), grouped, '')"
        ),
    };
    let step = query.step_seconds;
    format!(
        "SELECT toUInt32(intDiv(toUnixTimestamp(at), {step}) * {step}) AS begun, {kept} AS name, \
         sumIf(events, code = '') AS accepted, sumIf(events, code != '') AS rejected, \
         sumIf(historical, code = '') AS historical_events, sumIf(bytes, code = '') AS all_bytes \
         FROM ({rows}) GROUP BY begun, name ORDER BY begun, name LIMIT {ROWS_MAX} \
         SETTINGS max_threads = 2, max_memory_usage = 1073741824, max_execution_time = {seconds_max}",
        seconds_max = query.seconds_max,
    )
}

/// Condition on the rows of a kind that together have each event of the time once.
fn of_kind(kind: StatsKind, query: &StatsQuery) -> String {
    let counted = query.progress.of(kind);
    let hours_end = counted - counted.rem_euclid(i64::from(HOUR_SECONDS));
    let days_end = counted - counted.rem_euclid(i64::from(DAY_SECONDS));
    let everything = i64::MIN;
    // By steps from the longest that is not longer than the query's.
    let parts = match query.step_seconds {
        DAY_SECONDS => vec![
            (DAY_SECONDS, everything..days_end),
            (HOUR_SECONDS, days_end..hours_end),
            (MINUTE_SECONDS, hours_end..counted),
        ],
        HOUR_SECONDS => vec![
            (HOUR_SECONDS, everything..hours_end),
            (MINUTE_SECONDS, hours_end..counted),
        ],
        _ => vec![(MINUTE_SECONDS, everything..counted)],
    };
    let parts = parts.into_iter().filter_map(|(step, seconds)| {
        let start = seconds.start.max(query.seconds.start);
        let end = seconds.end.min(query.seconds.end);
        let is_within = begins_within(&(start..end));
        (start < end).then(|| format!("step_seconds = {step} AND {is_within}"))
    });
    let parts: Vec<String> = parts.map(|part| format!("({part})")).collect();
    match parts.is_empty() {
        true => "0".to_owned(),
        false => format!("{} AND ({})", kind.condition(), parts.join(" OR ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T00:00:00Z.
    const DAY: i64 = 1_795_132_800;

    fn query(step_seconds: u32, seconds: Range<i64>) -> StatsQuery {
        StatsQuery {
            project_ids: vec![7],
            step_seconds,
            seconds,
            grouping: StatsGrouping::None,
            progress: StatsProgress {
                since: 0,
                // 03:05 of the day.
                accepted: DAY + 3 * 3_600 + 300,
                rejected: DAY,
            },
            seconds_max: 20,
        }
    }

    /// Steps and times of a kind's condition, in seconds from the day on.
    fn parts(kind: StatsKind, query: &StatsQuery) -> Vec<(u32, i64, i64)> {
        let condition = of_kind(kind, query);
        let numbers = |text: &str| {
            let numbers = text.split(|letter: char| !letter.is_ascii_digit());
            let numbers = numbers.filter_map(|number| number.parse::<i64>().ok());
            numbers.collect::<Vec<_>>()
        };
        let parts = condition.split("step_seconds = ").skip(1);
        parts
            .map(|part| match numbers(part).as_slice() {
                [step, start, end] => (*step as u32, start - DAY, end - DAY),
                other => panic!("{other:?} of {condition}"),
            })
            .collect()
    }

    #[test]
    fn each_event_of_a_time_is_in_one_part() {
        let day = i64::from(DAY_SECONDS);
        type Parts = Vec<(u32, i64, i64)>;
        let table: [(StatsQuery, Parts); 4] = [
            (
                query(DAY_SECONDS, DAY - day..DAY + day),
                vec![
                    (DAY_SECONDS, -day, 0),
                    (HOUR_SECONDS, 0, 3 * 3_600),
                    (MINUTE_SECONDS, 3 * 3_600, 3 * 3_600 + 300),
                ],
            ),
            (
                query(HOUR_SECONDS, DAY + 3_600..DAY + 4 * 3_600),
                vec![
                    (HOUR_SECONDS, 3_600, 3 * 3_600),
                    (MINUTE_SECONDS, 3 * 3_600, 3 * 3_600 + 300),
                ],
            ),
            (
                query(MINUTE_SECONDS, DAY..DAY + 120),
                vec![(MINUTE_SECONDS, 0, 120)],
            ),
            (query(MINUTE_SECONDS, DAY + day..DAY + day + 60), vec![]),
        ];
        for (query, expected) in table {
            assert_eq!(parts(StatsKind::Accepted, &query), expected, "{query:?}");
        }
        // Rejected events are counted up to the day alone.
        let of_day = query(DAY_SECONDS, DAY - day..DAY + day);
        assert_eq!(
            parts(StatsKind::Rejected, &of_day),
            [(DAY_SECONDS, -day, 0)]
        );
    }
}
