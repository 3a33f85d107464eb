//! Whether ClickHouse has exactly what was acknowledged.
//!
//! Rows are counted plainly, without `FINAL`, and grouped by the batch in their uuid:
//!
//! - an acknowledged batch must be there whole, every event once;
//! - a batch without acknowledgement (its answer was lost) may be there whole, or not at all;
//! - a batch that is there in part, or an event that is there twice, is wrong in any case.
//!
//! The table folds rows of one uuid when it merges parts and so can hide a duplicate; stop its
//! merges (`SYSTEM STOP MERGES`, or a table setting) before a run whose duplicates matter.

use crate::clickhouse::ClickHouse;
use crate::ledger::{Ledger, RunLedger};
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::HashSet;
use std::fmt;
use std::time::{Duration, Instant};

/// How long to wait before looking again for what is still on its way.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Most batches named in a verdict, per kind of mistake.
const NAMED_MAX: usize = 10;
/// Rows that one query groups at most, about; keeps ClickHouse's memory within some 100 MB.
const QUERY_EVENTS: u64 = 10_000_000;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Events of acknowledged batches, according to the ledger.
    pub acknowledged_events: u64,
    /// Rows of the ledger's runs, according to ClickHouse.
    pub rows: u64,
    /// Different uuids among them.
    pub uuids: u64,
    /// Acknowledged batches of which nothing or not all is there.
    pub missing: Wrong,
    /// Batches with rows of the same uuid.
    pub duplicated: Wrong,
    /// Batches without acknowledgement of which a part is there.
    pub partial: Wrong,
    /// Batches without acknowledgement that are there whole: allowed.
    pub unacknowledged_but_stored: u64,
}

/// Batches with one kind of mistake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wrong {
    /// How many.
    pub batches: u64,
    /// How many events are too few or too many.
    pub events: u64,
    /// The first of them, in words.
    pub examples: Vec<String>,
}

impl Wrong {
    fn add(&mut self, events: u64, example: impl FnOnce() -> String) {
        self.batches += 1;
        self.events += events;
        if self.examples.len() < NAMED_MAX {
            self.examples.push(example());
        }
    }
}

impl Verdict {
    /// Whether every acknowledged event is there exactly once and nothing is there in part.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.missing.batches == 0 && self.duplicated.batches == 0 && self.partial.batches == 0
    }

    /// Whether waiting may make it clean.
    const fn may_become_clean(&self) -> bool {
        self.duplicated.batches == 0
    }
}

/// Compares until all is there or no row has come for `patience`, then says what was found.
///
/// # Errors
/// ClickHouse could not be asked for so long.
pub async fn verify(
    ledger: &Ledger,
    clickhouse: &ClickHouse,
    patience: Duration,
) -> Result<Verdict> {
    let mut deadline = Instant::now() + patience;
    let mut rows = 0;
    loop {
        let look = look(ledger, clickhouse, patience).await;
        let settled = match &look {
            Ok(verdict) => verdict.is_clean() || !verdict.may_become_clean(),
            Err(_) => false,
        };
        if let Ok(verdict) = &look
            && verdict.rows > rows
        {
            rows = verdict.rows;
            deadline = Instant::now() + patience;
        }
        if settled || Instant::now() >= deadline {
            return look;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Looks at every run once; cheaply first, as long as rows are still to come.
async fn look(ledger: &Ledger, clickhouse: &ClickHouse, patience: Duration) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    for (run, expected) in &ledger.runs {
        wait_for_rows(*run, expected, clickhouse, patience).await?;
        look_at_run(*run, expected, clickhouse, &mut verdict).await?;
    }
    Ok(verdict)
}

/// Waits until a run has as many rows as were acknowledged, or more; or none has come for
/// `patience`.
async fn wait_for_rows(
    run: u32,
    expected: &RunLedger,
    clickhouse: &ClickHouse,
    patience: Duration,
) -> Result<()> {
    let query = format!(
        "SELECT count() FROM {} FORMAT TabSeparated",
        rows_of(run, clickhouse)
    );
    let mut deadline = Instant::now() + patience;
    let mut rows = 0;
    loop {
        let found = clickhouse.number(&query).await?;
        if found > rows {
            rows = found;
            deadline = Instant::now() + patience;
        }
        if found >= expected.acknowledged_events() || Instant::now() >= deadline {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// A run's rows, each with its id as a number.
fn rows_of(run: u32, clickhouse: &ClickHouse) -> String {
    format!(
        "(SELECT toUInt128(uuid) AS id FROM {} WHERE bitShiftRight(toUInt128(uuid), 96) = {run})",
        clickhouse.table
    )
}

/// One batch as ClickHouse has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    connection: u16,
    batch: u32,
    rows: u64,
    uuids: u64,
}

impl Found {
    fn parse(row: &str) -> Option<Self> {
        let mut fields = row.split('\t');
        Some(Self {
            connection: fields.next()?.parse().ok()?,
            batch: fields.next()?.parse().ok()?,
            rows: fields.next()?.parse().ok()?,
            uuids: fields.next()?.parse().ok()?,
        })
    }
}

async fn look_at_run(
    run: u32,
    expected: &RunLedger,
    clickhouse: &ClickHouse,
    verdict: &mut Verdict,
) -> Result<()> {
    let rows = rows_of(run, clickhouse);
    let count = format!("SELECT count() FROM {rows} FORMAT TabSeparated");
    let slices = clickhouse
        .number(&count)
        .await?
        .div_ceil(QUERY_EVENTS)
        .max(1);
    let mut judge = Judge::new(run, expected, verdict);
    for slice in 0..slices {
        let query = format!(
            "SELECT bitAnd(bitShiftRight(id, 80), 65535) AS connection, \
             bitAnd(bitShiftRight(id, 24), 4294967295) AS batch, count(), uniqExact(id) \
             FROM {rows} WHERE batch % {slices} = {slice} \
             GROUP BY connection, batch FORMAT TabSeparated"
        );
        let each = |row: &str| {
            judge.found(Found::parse(row).with_context(|| format!("row {row:?}"))?);
            Ok(())
        };
        clickhouse.rows(&query, each).await?;
    }
    judge.close();
    Ok(())
}

/// Compares one run's batches with its ledger.
struct Judge<'a> {
    run: u32,
    expected: &'a RunLedger,
    verdict: &'a mut Verdict,
    seen: HashSet<(u16, u32)>,
}

impl<'a> Judge<'a> {
    fn new(run: u32, expected: &'a RunLedger, verdict: &'a mut Verdict) -> Self {
        verdict.acknowledged_events += expected.acknowledged_events();
        Self {
            run,
            expected,
            verdict,
            seen: HashSet::new(),
        }
    }

    fn found(&mut self, found: Found) {
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
    fn close(self) {
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

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "acknowledged events          {}",
            self.acknowledged_events
        )?;
        writeln!(f, "rows in ClickHouse           {}", self.rows)?;
        writeln!(f, "different uuids              {}", self.uuids)?;
        writeln!(
            f,
            "unacknowledged but stored    {} batches (allowed)",
            self.unacknowledged_but_stored
        )?;
        for (name, wrong) in [
            ("missing", &self.missing),
            ("duplicated", &self.duplicated),
            ("stored in part", &self.partial),
        ] {
            writeln!(
                f,
                "{name:<28} {} events in {} batches",
                wrong.events, wrong.batches
            )?;
            for example in &wrong.examples {
                writeln!(f, "    {example}")?;
            }
        }
        f.write_str(if self.is_clean() {
            "OK: every acknowledged event is stored exactly once"
        } else {
            "WRONG: what is stored is not what was acknowledged"
        })
    }
}

#[cfg(test)]
mod tests {
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
