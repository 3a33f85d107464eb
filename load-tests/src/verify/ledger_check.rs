//! Comparison of batches in ClickHouse with a ledger.

use super::queries::StoredBatch;
use super::report::VerifyReport;
use crate::digits::counted;
use crate::ledger::AckLedger;
use std::collections::HashSet;

/// Compares the batches of all runs with their ledger.
pub(super) struct LedgerCheck<'a> {
    ledger: &'a AckLedger,
    report: VerifyReport,
    /// Acknowledged batches that were found, by run, connection and number.
    seen: HashSet<(u32, u16, u32)>,
}

impl<'a> LedgerCheck<'a> {
    pub(super) fn new(ledger: &'a AckLedger) -> Self {
        Self {
            ledger,
            report: VerifyReport {
                acknowledged_events: ledger.acknowledged_events(),
                ..VerifyReport::default()
            },
            seen: HashSet::new(),
        }
    }

    /// Compares a batch; one of another ledger's run is left out.
    pub(super) fn add(&mut self, found: StoredBatch) {
        let Some(expected) = self.ledger.runs.get(&found.run) else {
            return;
        };
        let place = (found.connection, found.batch);
        let name = || name_of(found.run, place);
        self.report.rows += found.rows;
        self.report.uuids += found.uuids;
        let extra = found.rows - found.uuids.min(found.rows);
        if extra > 0 {
            self.report.duplicated.add(extra, || {
                let (rows, uuids) = (counted(found.rows, "row"), counted(found.uuids, "uuid"));
                format!("{}: {rows}, {uuids}", name())
            });
        }
        let acknowledged = expected.acknowledged.get(&place);
        let whole = u64::from(*acknowledged.unwrap_or(&expected.batch_events));
        let absent = whole.abs_diff(found.uuids);
        let (wrong, kind) = if acknowledged.is_some() {
            self.seen.insert((found.run, found.connection, found.batch));
            (&mut self.report.missing, "acknowledged")
        } else {
            (&mut self.report.partial, "not acknowledged")
        };
        if absent > 0 {
            wrong.add(absent, || {
                let whole = counted(whole, "event");
                format!("{}: {kind}, {} of {whole}", name(), found.uuids)
            });
        } else if acknowledged.is_none() {
            self.report.unacknowledged_but_stored += 1;
        }
    }

    /// Reports also the acknowledged batches that were not found at all.
    pub(super) fn finish(mut self) -> VerifyReport {
        for (run, expected) in &self.ledger.runs {
            for (&(connection, batch), events) in &expected.acknowledged {
                if !self.seen.contains(&(*run, connection, batch)) {
                    self.report.missing.add(u64::from(*events), || {
                        let events = counted(u64::from(*events), "event");
                        let name = name_of(*run, (connection, batch));
                        format!("{name}: acknowledged, 0 of {events}")
                    });
                }
            }
        }
        self.report
    }
}

fn name_of(run: u32, (connection, batch): (u16, u32)) -> String {
    format!("run {run:08x} connection {connection} batch {batch}")
}

#[cfg(test)]
mod tests {
    use super::super::report::Mismatch;
    use super::*;
    use crate::ledger::RunAcks;

    fn check(found: &[(u16, u32, u64, u64)]) -> VerifyReport {
        let expected = RunAcks {
            batch_events: 10,
            acknowledged: [((0, 0), 10), ((0, 1), 10), ((1, 0), 10)].into(),
        };
        let other = RunAcks {
            batch_events: 1,
            acknowledged: [((0, 0), 1)].into(),
        };
        let ledger = AckLedger {
            runs: [(1, expected), (2, other)].into(),
        };
        let mut check = LedgerCheck::new(&ledger);
        let of_other = StoredBatch {
            run: 2,
            connection: 0,
            batch: 0,
            rows: 1,
            uuids: 1,
        };
        check.add(of_other);
        // Of no run of the ledger.
        check.add(StoredBatch { run: 3, ..of_other });
        for (connection, batch, rows, uuids) in found.iter().copied() {
            check.add(StoredBatch {
                run: 1,
                connection,
                batch,
                rows,
                uuids,
            });
        }
        check.finish()
    }

    /// Numbers of (batches, events) that are missing, duplicated and partial; and the number of
    /// unacknowledged batches that are stored.
    type Mistakes = ([(u64, u64); 3], u64);

    #[test]
    fn each_kind_of_mismatch_is_counted_apart() {
        const ALL: [(u16, u32, u64, u64); 3] = [(0, 0, 10, 10), (0, 1, 10, 10), (1, 0, 10, 10)];
        let with = |extra: &[(u16, u32, u64, u64)]| [&ALL[..], extra].concat();
        let none = (0, 0);
        let cases: [(&str, Vec<_>, Mistakes); 7] = [
            ("all there once", with(&[]), ([none; 3], 0)),
            (
                "a whole unacknowledged batch",
                with(&[(2, 0, 10, 10)]),
                ([none; 3], 1),
            ),
            (
                "part of one",
                with(&[(2, 0, 4, 4)]),
                ([none, none, (1, 6)], 0),
            ),
            (
                "one stored twice",
                with(&[(2, 0, 20, 10)]),
                ([none, (1, 10), none], 1),
            ),
            (
                "a batch lost",
                ALL[1..].to_vec(),
                ([(1, 10), none, none], 0),
            ),
            (
                "an event lost",
                [&ALL[1..], &[(0, 0, 9, 9)]].concat(),
                ([(1, 1), none, none], 0),
            ),
            (
                "an event lost and another twice",
                [&ALL[1..], &[(0, 0, 10, 9)]].concat(),
                ([(1, 1), (1, 1), none], 0),
            ),
        ];
        for (what, found, expected) in cases {
            let report = check(&found);
            let count = |wrong: &Mismatch| (wrong.batches, wrong.events);
            let wrong = [&report.missing, &report.duplicated, &report.partial].map(count);
            assert_eq!(
                (wrong, report.unacknowledged_but_stored),
                expected,
                "{what}"
            );
            assert_eq!(report.is_clean(), wrong == [none; 3], "{what}");
        }
    }

    #[test]
    fn a_report_names_the_mismatched_batches() {
        let text = check(&[(0, 0, 10, 10), (0, 1, 3, 3)]).to_string();
        for says in [
            "run 00000001 connection 0 batch 1: acknowledged, 3 of 10 events",
            "run 00000001 connection 1 batch 0: acknowledged, 0 of 10 events",
            "WRONG",
        ] {
            assert!(text.contains(says), "{text}");
        }
    }
}
