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

mod report;
mod run_check;

pub use report::{Mismatch, VerifyReport};

use crate::clickhouse::ClickHouse;
use crate::ledger::{AckLedger, RunAcks};
use anyhow::{Context, Result};
use run_check::{RunCheck, StoredBatch};
use std::time::{Duration, Instant};

/// Interval at which rows that are still being shipped are looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Approximate number of rows that one query groups; keeps ClickHouse's memory within some 100 MB.
const QUERY_EVENTS: u64 = 10_000_000;

/// Compares until everything is stored or no row has come for `patience`, then reports the result.
///
/// # Errors
/// ClickHouse did not respond for that time.
pub async fn verify(
    ledger: &AckLedger,
    clickhouse: &ClickHouse,
    patience: Duration,
) -> Result<VerifyReport> {
    let mut deadline = Instant::now() + patience;
    let mut rows = 0;
    loop {
        let look = check_runs(ledger, clickhouse, patience).await;
        let settled = match &look {
            Ok(report) => report.is_settled(),
            Err(_) => false,
        };
        if let Ok(report) = &look
            && report.rows > rows
        {
            rows = report.rows;
            deadline = Instant::now() + patience;
        }
        if settled || Instant::now() >= deadline {
            return look;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Checks every run once; it first waits, by cheap counts, until its rows have come.
async fn check_runs(
    ledger: &AckLedger,
    clickhouse: &ClickHouse,
    patience: Duration,
) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    for (run, expected) in &ledger.runs {
        wait_for_rows(*run, expected, clickhouse, patience).await?;
        look_at_run(*run, expected, clickhouse, &mut report).await?;
    }
    Ok(report)
}

/// Waits until a run has at least as many rows as were acknowledged, or none has come for
/// `patience`.
async fn wait_for_rows(
    run: u32,
    expected: &RunAcks,
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

/// Subquery of a run's rows, each with its id as a number.
fn rows_of(run: u32, clickhouse: &ClickHouse) -> String {
    format!(
        "(SELECT toUInt128(uuid) AS id FROM {} WHERE bitShiftRight(toUInt128(uuid), 96) = {run})",
        clickhouse.table
    )
}

async fn look_at_run(
    run: u32,
    expected: &RunAcks,
    clickhouse: &ClickHouse,
    report: &mut VerifyReport,
) -> Result<()> {
    let rows = rows_of(run, clickhouse);
    let count = format!("SELECT count() FROM {rows} FORMAT TabSeparated");
    let slices = clickhouse
        .number(&count)
        .await?
        .div_ceil(QUERY_EVENTS)
        .max(1);
    let mut check = RunCheck::new(run, expected, report);
    for slice in 0..slices {
        let query = format!(
            "SELECT bitAnd(bitShiftRight(id, 80), 65535) AS connection, \
             bitAnd(bitShiftRight(id, 24), 4294967295) AS batch, count(), uniqExact(id) \
             FROM {rows} WHERE batch % {slices} = {slice} \
             GROUP BY connection, batch FORMAT TabSeparated"
        );
        let each = |row: &str| {
            check.add(StoredBatch::parse(row).with_context(|| format!("row {row:?}"))?);
            Ok(())
        };
        clickhouse.rows(&query, each).await?;
    }
    check.finish();
    Ok(())
}
