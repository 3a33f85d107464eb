//! Events of yesterday, put straight into ClickHouse. Today's would be exported by schedule, not by
//! a backfill.

use crate::wall_clock::{seconds_text, since_epoch};

/// Events of a project on that day.
pub(super) const EVENTS: usize = 300;
const DAY_SECONDS: i64 = 86_400;

/// Yesterday, in UTC.
pub(super) struct Yesterday {
    pub(super) start: String,
    pub(super) end: String,
}

impl Yesterday {
    pub(super) fn new() -> Self {
        let now = i64::try_from(since_epoch().as_secs()).unwrap_or(i64::MAX);
        let today = now / DAY_SECONDS * DAY_SECONDS;
        let text = |at| format!("{}Z", String::from_utf8_lossy(&seconds_text(at)));
        Self {
            start: text(today - DAY_SECONDS),
            end: text(today),
        }
    }

    /// Statement that inserts the day's events of a project.
    pub(super) fn insert(&self, project_id: u64) -> String {
        format!(
            "INSERT INTO millrace.events SELECT generateUUIDv4(number) AS uuid, 'past' AS event, \
             concat('{{\"number\":', toString(number), '}}') AS properties, \
             parseDateTime64BestEffort('{}', 6, 'UTC') + 43200 AS timestamp, {project_id} AS team_id, \
             'e' AS distinct_id, timestamp AS created_at, false AS historical_migration \
             FROM numbers({EVENTS})",
            self.start
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yesterday_is_a_whole_day_and_its_statement_names_the_project() {
        let yesterday = Yesterday::new();
        assert!(yesterday.start < yesterday.end);
        for edge in [&yesterday.start, &yesterday.end] {
            assert!(edge.ends_with("T00:00:00Z"), "{edge}");
        }
        let statement = yesterday.insert(7);
        assert!(statement.contains(" 7 AS team_id"), "{statement}");
        assert!(statement.contains(&yesterday.start), "{statement}");
    }
}
