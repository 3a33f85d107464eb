//! Customers' queries that end ClickHouse: after a few tries no run of their export is tried.
//!
//! A server that is gone names no reason, so a run whose query is not answered waits, as in any
//! outage. If the next try of the query finds that ClickHouse has restarted, the query was under
//! way when the server ended. An outage in which ClickHouse goes on, as that of a proxy, never
//! counts.
//!
//! Counted by export and query: the next windows' runs have the same query, and would end
//! ClickHouse as often.

use millrace_catalog::BatchExport;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Restarts of ClickHouse during one export's queries after which its runs fail.
pub(super) const RESTARTS_MAX: u32 = 3;
/// Time after the last query that was lost until an export's runs are tried again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);
/// Queries that are remembered. With more, the oldest is forgotten.
const REMEMBERED_MAX: usize = 1_000;

/// Query of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueryId(Uuid);

impl QueryId {
    pub(super) fn of(export: &BatchExport) -> Self {
        let query = export.hogql_query.as_deref().unwrap_or_default();
        Self(Uuid::new_v5(&export.id, query.as_bytes()))
    }
}

/// Queries that were not answered to their end.
#[derive(Debug, Default)]
pub(super) struct LostQueries(HashMap<QueryId, LostQuery>);

#[derive(Debug)]
struct LostQuery {
    /// Boot id of the server that did not answer the last query; `None`: it is counted.
    boot_id: Option<Uuid>,
    restarts: u32,
    lost_at: Instant,
}

impl LostQueries {
    /// Records that the server with this boot id did not answer a query to its end.
    pub(super) fn record(&mut self, query: QueryId, boot_id: Uuid, now: Instant) {
        self.evict_oldest(query);
        let new = LostQuery {
            boot_id: None,
            restarts: 0,
            lost_at: now,
        };
        let lost = self.0.entry(query).or_insert(new);
        (lost.boot_id, lost.lost_at) = (Some(boot_id), now);
    }

    /// Compares the server's boot id before a try with that of the last query that was lost.
    /// Returns true if the run is to fail.
    pub(super) fn is_over(&mut self, query: QueryId, boot_id: Uuid, now: Instant) -> bool {
        self.0
            .retain(|_, lost| now.duration_since(lost.lost_at) < FORGOTTEN_AFTER);
        let Some(lost) = self.0.get_mut(&query) else {
            return false;
        };
        if lost.boot_id.take().is_some_and(|before| before != boot_id) {
            lost.restarts += 1;
        }
        lost.restarts >= RESTARTS_MAX
    }

    /// Forgets a query that was answered.
    pub(super) fn forget(&mut self, query: QueryId) {
        self.0.remove(&query);
    }

    /// Forgets the oldest query if there are too many to remember another one.
    fn evict_oldest(&mut self, query: QueryId) {
        if self.0.len() < REMEMBERED_MAX || self.0.contains_key(&query) {
            return;
        }
        let oldest = self.0.iter().min_by_key(|(_, lost)| lost.lost_at);
        if let Some(oldest) = oldest.map(|(query, _)| *query) {
            self.0.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Step of an export: a try that begins at a boot of the server, and whether its query is lost.
    type Try = (u128, bool);

    fn query(number: u128) -> QueryId {
        QueryId(Uuid::from_u128(number))
    }

    /// Number of the try at which a run fails; `None`: it goes on.
    fn fails_at(tries: &[Try]) -> Option<usize> {
        let (mut queries, now) = (LostQueries::default(), Instant::now());
        for (number, (boot, is_lost)) in tries.iter().enumerate() {
            let boot_id = Uuid::from_u128(*boot);
            if queries.is_over(query(7), boot_id, now) {
                return Some(number);
            }
            if *is_lost {
                queries.record(query(7), boot_id, now);
            }
        }
        None
    }

    #[test]
    fn a_run_fails_once_clickhouse_restarted_during_three_of_its_queries() {
        let lost = |boots: &[u128]| boots.iter().map(|boot| (*boot, true)).collect::<Vec<_>>();
        let table = [
            ("each query ends it", lost(&[1, 2, 3, 4]), Some(3)),
            ("the second time", lost(&[1, 2, 3]), None),
            ("a proxy closes connections", lost(&[1; 20]), None),
            ("both", lost(&[1, 1, 2, 2, 3, 3, 4]), Some(6)),
            (
                "restarts while no query is under way",
                (0..20).map(|boot| (boot, false)).collect(),
                None,
            ),
            (
                "answered queries in between",
                vec![
                    (1, true),
                    (2, false),
                    (3, true),
                    (4, false),
                    (5, true),
                    (6, true),
                ],
                Some(5),
            ),
        ];
        for (name, tries, expected) in table {
            assert_eq!(fails_at(&tries), expected, "{name}");
        }
    }

    #[test]
    fn all_runs_of_a_query_fail_until_it_is_forgotten() {
        let (mut queries, began) = (LostQueries::default(), Instant::now());
        for boot in 0..u128::from(RESTARTS_MAX) {
            assert!(!queries.is_over(query(7), Uuid::from_u128(boot), began));
            queries.record(query(7), Uuid::from_u128(boot), began);
        }
        let boot_id = Uuid::max();
        let soon = began + FORGOTTEN_AFTER.checked_sub(Duration::from_secs(1)).unwrap();
        for now in [began, soon, soon] {
            assert!(queries.is_over(query(7), boot_id, now), "the next run");
            assert!(!queries.is_over(query(8), boot_id, now), "another query");
        }
        assert!(!queries.is_over(query(7), boot_id, began + FORGOTTEN_AFTER));
    }

    #[test]
    fn an_answered_query_begins_anew() {
        let (mut queries, now) = (LostQueries::default(), Instant::now());
        for boot in 0..u128::from(RESTARTS_MAX) {
            queries.record(query(7), Uuid::from_u128(boot), now);
            queries.is_over(query(7), Uuid::max(), now);
        }
        assert!(queries.is_over(query(7), Uuid::max(), now));
        queries.forget(query(7));
        assert!(!queries.is_over(query(7), Uuid::max(), now));
    }

    #[test]
    fn a_limited_number_of_queries_is_remembered_the_latest() {
        let (mut queries, began) = (LostQueries::default(), Instant::now());
        for number in 0..5_000 {
            let now = began + Duration::from_millis(number);
            queries.record(query(number.into()), Uuid::nil(), now);
            assert!(queries.0.len() <= REMEMBERED_MAX, "{number}");
            assert!(queries.0.contains_key(&query(number.into())), "{number}");
        }
        assert!(queries.0.contains_key(&query(4_000)));
    }
}
