//! What ClickHouse has of a run, against what was acknowledged.

use super::verdict::Verdict;
use crate::ledger::RunLedger;
use std::collections::HashSet;

/// One batch as ClickHouse has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    connection: u16,
    batch: u32,
    rows: u64,
    uuids: u64,
}

impl Found {
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
pub(super) struct Judge<'a> {
    run: u32,
    expected: &'a RunLedger,
    verdict: &'a mut Verdict,
    seen: HashSet<(u16, u32)>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(run: u32, expected: &'a RunLedger, verdict: &'a mut Verdict) -> Self {
        verdict.acknowledged_events += expected.acknowledged_events();
        Self {
            run,
            expected,
            verdict,
            seen: HashSet::new(),
        }
    }

    pub(super) fn found(&mut self, found: Found) {
        let run = self.run;
        let name = || {
            format!(
                "run {run:08x} connection {} batch {}",
                found.connection, found.batch
            )
        };
        self.verdict.rows += found.rows;
        self.verdict.uuids += found.uuids;
        let extra = found.rows - found.uuids.min(found.rows);
        if extra > 0 {
            self.verdict.duplicated.add(extra, || {
                format!("{}: {} rows, {} uuids", name(), found.rows, found.uuids)
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
            (&mut self.verdict.missing, "acknowledged")
        } else {
            (&mut self.verdict.partial, "not acknowledged")
        };
        if absent > 0 {
            wrong.add(absent, || {
                format!("{}: {kind}, {} of {whole} events", name(), found.uuids)
            });
        } else if acknowledged.is_none() {
            self.verdict.unacknowledged_but_stored += 1;
        }
    }

    /// What was not found at all.
    pub(super) fn close(self) {
        for (batch, events) in &self.expected.acknowledged {
            if !self.seen.contains(batch) {
                self.verdict.missing.add(u64::from(*events), || {
                    let (connection, batch) = batch;
                    format!(
                        "run {:08x} connection {connection} batch {batch}: \
                         acknowledged, 0 of {events} events",
                        self.run
                    )
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::verdict::Wrong;
    use super::*;

    fn judge(found: &[(u16, u32, u64, u64)]) -> Verdict {
        let expected = RunLedger {
            batch_events: 10,
            acknowledged: [((0, 0), 10), ((0, 1), 10), ((1, 0), 10)].into(),
        };
        let mut verdict = Verdict::default();
        let mut judge = Judge::new(1, &expected, &mut verdict);
        for (connection, batch, rows, uuids) in found.iter().copied() {
            judge.found(Found {
                connection,
                batch,
                rows,
                uuids,
            });
        }
        judge.close();
        verdict
    }

    /// (missing, duplicated, partial) batches and events, and unacknowledged ones stored.
    type Mistakes = ([(u64, u64); 3], u64);

    #[test]
    fn each_mistake_is_told_apart() {
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
            let verdict = judge(&found);
            let count = |wrong: &Wrong| (wrong.batches, wrong.events);
            let wrong = [&verdict.missing, &verdict.duplicated, &verdict.partial].map(count);
            assert_eq!(
                (wrong, verdict.unacknowledged_but_stored),
                expected,
                "{what}"
            );
            assert_eq!(verdict.is_clean(), wrong == [none; 3], "{what}");
        }
    }

    #[test]
    fn a_verdict_names_the_batches() {
        let text = judge(&[(0, 0, 10, 10), (0, 1, 3, 3)]).to_string();
        for says in [
            "run 00000001 connection 0 batch 1: acknowledged, 3 of 10 events",
            "run 00000001 connection 1 batch 0: acknowledged, 0 of 10 events",
            "WRONG",
        ] {
            assert!(text.contains(says), "{text}");
        }
    }
}
