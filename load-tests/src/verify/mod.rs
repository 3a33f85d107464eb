//! Verifies that ClickHouse has exactly the acknowledged events.
//!
//! Rows are counted without `FINAL` and grouped by the batch in their uuid:
//!
//! - an acknowledged batch must be stored whole, every event once;
//! - a batch without acknowledgement (its response was lost) may be stored whole, or not at all;
//! - a batch stored in part, or an event stored twice, is wrong in any case.
//!
//! Merges fold rows of one uuid and so can hide a duplicate: stop the table's merges (`SYSTEM STOP
//! MERGES`, or a table setting) before a run whose duplicates matter.
//!
//! No index leads to a uuid, so each query reads all uuids of the table, whoever sent the rows, and
//! opens each of its parts: thousands where merges are stopped. Queries are therefore about as many
//! runs of the ledger as ClickHouse can group at once, and never about one run each.
//!
//! - [`queries`]: statements, and what they answer.
//! - [`slices`]: runs that one query groups.
//! - [`ledger_check`]: comparison of batches with the ledger; [`report`]: its result.

mod ledger_check;
mod queries;
mod report;
mod slices;

pub use report::{Mismatch, VerifyReport};

use crate::clickhouse::ClickHouse;
use crate::digits::counted;
use crate::ledger::AckLedger;
use anyhow::Result;
use ledger_check::LedgerCheck;
use slices::slices;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Least interval at which rows that are still being shipped are looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Interval at which progress is told.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Compares until everything is stored or no row has come for `patience`, then reports the result.
///
/// # Errors
/// ClickHouse did not respond for that time.
pub async fn verify(
    ledger: &AckLedger,
    clickhouse: &ClickHouse,
    patience: Duration,
) -> Result<VerifyReport> {
    verify_and_tell(ledger, clickhouse, patience, &|_| {}).await
}

/// Compares as [`verify`] does; `say` gets the progress, from time to time.
///
/// # Errors
/// See [`verify`].
pub async fn verify_and_tell(
    ledger: &AckLedger,
    clickhouse: &ClickHouse,
    patience: Duration,
    say: &dyn Fn(&str),
) -> Result<VerifyReport> {
    let mut look = Look {
        ledger,
        clickhouse,
        patience,
        say,
        told_at: Instant::now(),
    };
    let mut deadline = Instant::now() + patience;
    let mut rows = 0;
    loop {
        let began = Instant::now();
        let looked = look.compare().await;
        let settled = match &looked {
            Ok(report) => report.is_settled(),
            Err(_) => false,
        };
        if let Ok(report) = &looked
            && report.rows > rows
        {
            rows = report.rows;
            deadline = Instant::now() + patience;
        }
        if settled || Instant::now() >= deadline {
            return looked;
        }
        pause(began).await;
    }
}

/// Waits before the next look: for as long as the last one took, so that looking takes half of an
/// engine that still stores rows at the most.
async fn pause(began: Instant) {
    tokio::time::sleep(LOOK_AGAIN.max(began.elapsed())).await;
}

/// A look at the rows of a ledger.
struct Look<'a> {
    ledger: &'a AckLedger,
    clickhouse: &'a ClickHouse,
    patience: Duration,
    say: &'a dyn Fn(&str),
    told_at: Instant,
}

impl Look<'_> {
    /// Compares every run once; first waits, by cheap counts, until its rows have come.
    async fn compare(&mut self) -> Result<VerifyReport> {
        let rows = self.wait_for_rows().await?;
        let mut check = LedgerCheck::new(self.ledger);
        let slices = slices(&rows);
        for (number, slice) in slices.iter().enumerate() {
            let (number, all) = (number + 1, slices.len());
            self.tell(&format!(
                "comparing with the ledger: part {number} of {all}"
            ));
            let each = |found| check.add(found);
            queries::batches(slice, self.clickhouse, each).await?;
        }
        Ok(check.finish())
    }

    /// Waits until each run has at least as many rows as were acknowledged, or none has come for
    /// the whole patience; returns the rows of each run.
    async fn wait_for_rows(&mut self) -> Result<BTreeMap<u32, u64>> {
        let runs: Vec<u32> = self.ledger.runs.keys().copied().collect();
        let acknowledged = self.ledger.acknowledged_events();
        let mut deadline = Instant::now() + self.patience;
        let mut rows = 0;
        loop {
            let began = Instant::now();
            let found = queries::rows_by_run(&runs, self.clickhouse).await?;
            let all: u64 = found.values().sum();
            if all > rows {
                rows = all;
                deadline = Instant::now() + self.patience;
            }
            if self.is_complete(&found) || Instant::now() >= deadline {
                return Ok(found);
            }
            let (stored, sent) = (counted(rows, "row"), counted(acknowledged, "event"));
            self.tell(&format!("{stored} of {sent} so far"));
            pause(began).await;
        }
    }

    /// Returns true if each run has as many rows as were acknowledged.
    fn is_complete(&self, rows: &BTreeMap<u32, u64>) -> bool {
        self.ledger.runs.iter().all(|(run, acks)| {
            rows.get(run).copied().unwrap_or_default() >= acks.acknowledged_events()
        })
    }

    /// Tells the progress, unless it was told lately.
    fn tell(&mut self, progress: &str) {
        if self.told_at.elapsed() >= TELL_EVERY {
            self.told_at = Instant::now();
            (self.say)(progress);
        }
    }
}
