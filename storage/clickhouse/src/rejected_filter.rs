//! Filter of rejected events, and its conditions in SQL.

use crate::settings::quoted_text;
use millrace_rows::Micros;

/// Filter of rejected events; all conditions have to hold.
#[derive(Clone, Debug, Default)]
pub struct RejectedFilter {
    /// Project of the events.
    pub project_id: Option<i64>,
    /// Code of the rejection.
    pub code: Option<String>,
    /// Earliest time of receipt.
    pub since: Option<Micros>,
    /// Time of receipt that all events are earlier than.
    pub until: Option<Micros>,
    /// Id of the request.
    pub request_id: Option<String>,
    /// Index in the batch, from 0.
    pub index: Option<u32>,
    /// Ids of requests, and indexes in them, of the only events; empty: any.
    pub chosen: Vec<(String, u32)>,
    /// True to select only events that were not sent again.
    pub unsent: bool,
    /// Most rows; the newest are returned.
    pub rows_max: u32,
    /// Newest rows to skip.
    pub rows_skipped: u64,
    /// Most seconds of a query; `None`: as long as queries may take.
    pub seconds_max: Option<u32>,
}

impl RejectedFilter {
    /// Conditions on the row `r` of an event itself.
    pub(crate) fn conditions(&self) -> Vec<String> {
        let time = |at: Micros| format!("fromUnixTimestamp64Micro({}, 'UTC')", at.0);
        let conditions = [
            self.project_id.map(|id| format!("r.team_id = {id}")),
            self.code
                .as_deref()
                .map(|code| format!("r.code = {}", quoted_text(code))),
            self.since
                .map(|at| format!("r.received_at >= {}", time(at))),
            self.until.map(|at| format!("r.received_at < {}", time(at))),
            self.request_id
                .as_deref()
                .map(|id| format!("r.request_id = {}", quoted_text(id))),
            self.index.map(|index| format!("r.`index` = {index}")),
            self.is_chosen(),
        ];
        let conditions = conditions.into_iter().flatten();
        std::iter::once("1".to_owned()).chain(conditions).collect()
    }

    /// Condition that a row is one of the chosen; `None` if any may be.
    fn is_chosen(&self) -> Option<String> {
        let key = |(id, index): &(String, u32)| format!("({}, {index})", quoted_text(id));
        let keys: Vec<String> = self.chosen.iter().map(key).collect();
        let is_any = keys.is_empty();
        (!is_any).then(|| format!("(r.request_id, r.`index`) IN ({})", keys.join(", ")))
    }

    /// Setting that limits the time of a query, behind other settings.
    pub(crate) fn time_limit(&self) -> String {
        let limit = self.seconds_max;
        limit.map_or_else(String::new, |seconds| {
            format!(", max_execution_time = {seconds}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_that_a_filter_names() {
        let of = |change: fn(&mut RejectedFilter)| {
            let mut filter = RejectedFilter::default();
            change(&mut filter);
            filter.conditions().join(" AND ")
        };
        type Change = fn(&mut RejectedFilter);
        let table: [(Change, &str); 5] = [
            (|_| (), "1"),
            (|it| it.project_id = Some(7), "1 AND r.team_id = 7"),
            (
                |it| it.code = Some("a'b".to_owned()),
                "1 AND r.code = 'a\\'b'",
            ),
            (
                |it| it.until = Some(Micros(5)),
                "1 AND r.received_at < fromUnixTimestamp64Micro(5, 'UTC')",
            ),
            (
                |it| it.chosen = vec![("r".to_owned(), 3), ("s".to_owned(), 0)],
                "1 AND (r.request_id, r.`index`) IN (('r', 3), ('s', 0))",
            ),
        ];
        for (change, expected) in table {
            assert_eq!(of(change), expected);
        }
    }
}
