//! Comparison of a run's batches in ClickHouse with its ledger.

use super::report::VerifyReport;
use crate::digits::counted;
use crate::ledger::RunAcks;
use std::collections::HashSet;

/// A batch as ClickHouse has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredBatch {
    connection: u16,
    batch: u32,
    rows: u64,
    uuids: u64,
}

impl StoredBatch {
    pub(super) fn parse(row: &str) -> Option<Self> {
        let mut fields = row.split('\t');
        Some(Self {
            connection: fields.next()?.parse().ok()?,
            batch: fields.next()?.parse().ok()?,
            rows: fields.next()?.parse().ok()?,
            uuids: fields.next()?.parse().ok()?,
        })
    }
}

/// Compares one run's batches with its ledger.
pub(super) struct RunCheck<'a> {
    run: u32,
    expected: &'a RunAcks,
    report: &'a mut VerifyReport,
    seen: HashSet<(u16, u32)>,
}

impl<'a> RunCheck<'a> {
    pub(super) fn new(run: u32, expected: &'a RunAcks, report: &'a mut VerifyReport) -> Self {
        report.acknowledged_events += expected.acknowledged_events();
        Self {
            run,
            expected,
            report,
            seen: HashSet::new(),
        }
    }

    pub(super) fn add(&mut self, found: StoredBatch) {
        let run = self.run;
        let name = || {
            format!(
                "run {run:08x} connection {} batch {}",
                found.connection, found.batch
            )
        };
        self.report.rows += found.rows;
        self.report.uuids += found.uuids;
        let extra = found.rows - found.uuids.min(found.rows);
        if extra > 0 {
            self.report.duplicated.add(extra, || {
                let (rows, uuids) = (counted(found.rows, "row"), counted(found.uuids, "uuid"));
                format!("{}: {rows}, {uuids}", name())
            });
        }
        let acknowledged = self
            .expected
            .acknowledged
            .get(&(found.connection, found.batch));
        let whole = u64::from(*acknowledged.unwrap_or(&self.expected.batch_events));
        let absent = whole.abs_diff(found.uuids);
        let (wrong, kind) = if acknowledged.is_some() {
            self.seen.insert((found.connection, found.batch));
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

    /// Reports the acknowledged batches that were not found at all.
    pub(super) fn finish(self) {
        for (batch, events) in &self.expected.acknowledged {
            if !self.seen.contains(batch) {
                self.report.missing.add(u64::from(*events), || {
                    let (connection, batch) = batch;
                    let events = counted(u64::from(*events), "event");
                    format!(
                        "run {:08x} connection {connection} batch {batch}: \
                         acknowledged, 0 of {events}",
                        self.run
                    )
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Mismatch;
    use super::*;

    fn check(found: &[(u16, u32, u64, u64)]) -> VerifyReport {
        let expected = RunAcks {
            batch_events: 10,
            acknowledged: [((0, 0), 10), ((0, 1), 10), ((1, 0), 10)].into(),
        };
        let mut report = VerifyReport::default();
        let mut check = RunCheck::new(1, &expected, &mut report);
        for (connection, batch, rows, uuids) in found.iter().copied() {
            check.add(StoredBatch {
                connection,
                batch,
                rows,
                uuids,
            });
        }
        check.finish();
        report
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
