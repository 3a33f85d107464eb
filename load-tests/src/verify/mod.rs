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

mod judge;
mod verdict;

pub use verdict::{Verdict, Wrong};

use crate::clickhouse::ClickHouse;
use crate::ledger::{Ledger, RunLedger};
use anyhow::{Context, Result};
use judge::{Found, Judge};
use std::time::{Duration, Instant};

/// How long to wait before looking again for what is still on its way.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Rows that one query groups at most, about; keeps ClickHouse's memory within some 100 MB.
const QUERY_EVENTS: u64 = 10_000_000;

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
            Ok(verdict) => verdict.is_settled(),
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
