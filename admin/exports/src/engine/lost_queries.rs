//! Customers' queries that end ClickHouse: after a few tries their run fails.
//!
//! A server that is gone names no reason, so a run whose query is not answered waits, as in any
//! outage. If its next try finds that ClickHouse has restarted, the query was under way when the
//! server ended. An outage in which ClickHouse goes on, as that of a proxy, never counts.

use std::collections::HashMap;
use uuid::Uuid;

/// Restarts of ClickHouse during one run's queries after which the run fails.
pub(super) const RESTARTS_MAX: u32 = 3;
/// Runs that are remembered. With more, all of them begin anew.
const REMEMBERED_MAX: usize = 1_000;

/// Runs whose queries were not answered, by their ids.
#[derive(Debug, Default)]
pub(super) struct LostQueries(HashMap<Uuid, LostQuery>);

#[derive(Debug, Default)]
struct LostQuery {
    /// Boot id of the server that did not answer the last query; `None`: it is counted.
    boot_id: Option<Uuid>,
    restarts: u32,
}

impl LostQueries {
    /// Records that the server with this boot id did not answer a run's query to its end.
    pub(super) fn record(&mut self, run_id: Uuid, boot_id: Uuid) {
        if self.0.len() >= REMEMBERED_MAX && !self.0.contains_key(&run_id) {
            self.0.clear();
        }
        self.0.entry(run_id).or_default().boot_id = Some(boot_id);
    }

    /// Compares the server's boot id before a try with that of the last query that was lost.
    /// Returns true if the run is to fail, and forgets it then: a customer may have it tried again.
    pub(super) fn is_over(&mut self, run_id: Uuid, boot_id: Uuid) -> bool {
        let Some(query) = self.0.get_mut(&run_id) else {
            return false;
        };
        if query.boot_id.take().is_some_and(|before| before != boot_id) {
            query.restarts += 1;
        }
        let is_over = query.restarts >= RESTARTS_MAX;
        if is_over {
            self.0.remove(&run_id);
        }
        is_over
    }

    /// Forgets a run that has ended.
    pub(super) fn forget(&mut self, run_id: Uuid) {
        self.0.remove(&run_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Step of a run: a try that begins at a boot of the server, and whether its query is lost.
    type Try = (u128, bool);

    /// Number of the try at which a run fails; `None`: it goes on.
    fn fails_at(tries: &[Try]) -> Option<usize> {
        let mut queries = LostQueries::default();
        let run_id = Uuid::from_u128(7);
        for (number, (boot, is_lost)) in tries.iter().enumerate() {
            let boot_id = Uuid::from_u128(*boot);
            if queries.is_over(run_id, boot_id) {
                assert!(!queries.is_over(run_id, Uuid::max()), "it is forgotten");
                return Some(number);
            }
            if *is_lost {
                queries.record(run_id, boot_id);
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
    fn an_ended_run_is_forgotten_and_a_limited_number_is_remembered() {
        let mut queries = LostQueries::default();
        for run in 0..5_000 {
            queries.record(Uuid::from_u128(run), Uuid::nil());
            assert!(queries.0.len() <= REMEMBERED_MAX, "{run}");
        }
        let before = queries.0.len();
        queries.forget(Uuid::from_u128(4_999));
        assert_eq!(queries.0.len(), before - 1);
    }
}
