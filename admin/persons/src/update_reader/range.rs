//! Ranges of updates that are not applied yet, and the SQL that reads them.

use crate::state::{PersonBacklog, UpdatePosition};
use millrace_catalog::UtcTime;

/// Position up to which updates are applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppliedPosition<'a> {
    /// Position of the last update that was applied.
    pub after: &'a UpdatePosition,
    /// Arrival time before which all were applied; it may be later than that position.
    pub passed: Option<UtcTime>,
}

/// Projects whose updates are read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProjectFilter<'a> {
    /// Projects with a backlog, at least one, each from its own position.
    Backlogs(&'a [&'a PersonBacklog]),
    /// All projects but those with a backlog, from the common position.
    AllBut(&'a [PersonBacklog], AppliedPosition<'a>),
}

/// Range of updates that are not applied yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range<'a> {
    pub projects: ProjectFilter<'a>,
    /// Watermark before which all have arrived.
    pub before: UtcTime,
}

/// Conditions of a WHERE for the updates in a range.
pub(super) fn conditions(range: &Range<'_>) -> String {
    let until = instant(range.before.0);
    match range.projects {
        ProjectFilter::AllBut(backlogs, position) => {
            let project_ids = ids(backlogs.iter());
            let of = match backlogs {
                [] => String::new(),
                _ => format!(" AND team_id NOT IN ({project_ids})"),
            };
            format!("{} AND created_at < {until}{of}", position.conditions())
        }
        ProjectFilter::Backlogs(backlogs) => {
            let positions = backlogs
                .iter()
                .map(|backlog| AppliedPosition::of(backlog).earliest());
            let from = instant(positions.min().unwrap_or(range.before.0));
            let each: Vec<String> = backlogs
                .iter()
                .map(|backlog| {
                    let own = AppliedPosition::of(backlog).conditions();
                    format!("(team_id = {} AND {own})", backlog.project_id.0)
                })
                .collect();
            // The first conditions are for the index of the table.
            format!(
                "created_at >= {from} AND created_at < {until} AND team_id IN ({}) AND ({})",
                ids(backlogs.iter().copied()),
                each.join(" OR ")
            )
        }
    }
}

fn instant(micros: i64) -> String {
    format!("fromUnixTimestamp64Micro({micros}, 'UTC')")
}

/// Ids of projects, as a list of SQL.
fn ids<'a>(backlogs: impl Iterator<Item = &'a PersonBacklog>) -> String {
    let ids: Vec<String> = backlogs.map(|it| it.project_id.0.to_string()).collect();
    ids.join(", ")
}

impl<'a> AppliedPosition<'a> {
    fn of(backlog: &'a PersonBacklog) -> Self {
        Self {
            after: &backlog.position,
            passed: backlog.passed,
        }
    }

    /// Earliest arrival of what is left.
    fn earliest(self) -> i64 {
        let after = self.after.created_at.0;
        self.passed.map_or(after, |passed| passed.0.max(after))
    }

    fn conditions(self) -> String {
        let UpdatePosition {
            created_at,
            request_id,
            index,
        } = self.after;
        let (from, after) = (instant(self.earliest()), instant(created_at.0));
        // The first condition is for the index of the table.
        format!(
            "created_at >= {from} AND (created_at > {after} OR request_id > '{request_id}' \
             OR (request_id = '{request_id}' AND toInt64(`index`) > {index}))"
        )
    }
}

/// Statement that reads the updates in a range, so many at most; `nonce` is the name of its first
/// column.
pub(super) fn statement(table: &str, range: &Range<'_>, rows_max: usize, nonce: &str) -> String {
    format!(
        "SELECT team_id AS {nonce}, created_at, request_id, `index`, uuid, timestamp, \
         toString(kind) AS kind, distinct_id, other_id, person_set, person_set_once, person_unset, \
         toString(group_type) AS group_type, group_key, group_set \
         FROM {table} WHERE {} \
         ORDER BY created_at, request_id, `index` LIMIT {rows_max} \
         FORMAT RowBinaryWithNamesAndTypes",
        conditions(range),
    )
}
