//! Statements that count and group the rows of a ledger's runs, by the numbers in their uuids.

use super::slices::{RUNS_MAX, Slice};
use crate::clickhouse::ClickHouse;
use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// Run of a row, by its uuid.
const RUN: &str = "toUInt32(bitShiftRight(toUInt128(uuid), 96))";

/// A batch as ClickHouse has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredBatch {
    pub(super) run: u32,
    pub(super) connection: u16,
    pub(super) batch: u32,
    pub(super) rows: u64,
    pub(super) uuids: u64,
}

impl StoredBatch {
    fn parse(row: &str) -> Option<Self> {
        let mut fields = row.split('\t');
        Some(Self {
            run: fields.next()?.parse().ok()?,
            connection: fields.next()?.parse().ok()?,
            batch: fields.next()?.parse().ok()?,
            rows: fields.next()?.parse().ok()?,
            uuids: fields.next()?.parse().ok()?,
        })
    }
}

/// Number of rows of each run that has some.
pub(super) async fn rows_by_run(
    runs: &[u32],
    clickhouse: &ClickHouse,
) -> Result<BTreeMap<u32, u64>> {
    let mut rows = BTreeMap::new();
    for some in runs.chunks(RUNS_MAX) {
        let query = count(&clickhouse.table, some);
        let each = |row: &str| {
            let (run, count) = row.split_once('\t').context("two columns")?;
            rows.insert(run.parse()?, count.parse()?);
            Ok(())
        };
        clickhouse.rows(&query, each).await?;
    }
    Ok(rows)
}

/// Passes the batches of a slice on.
pub(super) async fn batches(
    slice: &Slice,
    clickhouse: &ClickHouse,
    mut each: impl FnMut(StoredBatch),
) -> Result<()> {
    let query = group(&clickhouse.table, slice);
    let each = |row: &str| {
        each(StoredBatch::parse(row).with_context(|| format!("row {row:?}"))?);
        Ok(())
    };
    clickhouse.rows(&query, each).await
}

fn count(table: &str, runs: &[u32]) -> String {
    format!(
        "SELECT {RUN} AS run, count() FROM {table} WHERE run IN ({}) GROUP BY run \
         FORMAT TabSeparated",
        listed(runs)
    )
}

fn group(table: &str, slice: &Slice) -> String {
    let part = slice.part;
    format!(
        "SELECT run, bitAnd(bitShiftRight(id, 80), 65535) AS connection, \
         bitAnd(bitShiftRight(id, 24), 4294967295) AS batch, count(), uniqExact(id) \
         FROM (SELECT toUInt128(uuid) AS id, {RUN} AS run FROM {table} WHERE run IN ({})) \
         WHERE batch % {} = {} GROUP BY run, connection, batch FORMAT TabSeparated",
        listed(&slice.runs),
        part.parts,
        part.number
    )
}

fn listed(runs: &[u32]) -> String {
    let runs: Vec<String> = runs.iter().map(u32::to_string).collect();
    runs.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::slices::Part;
    use super::*;

    #[test]
    fn a_query_is_about_several_runs() {
        let slice = Slice {
            runs: vec![7, 8],
            part: Part {
                number: 1,
                parts: 3,
            },
        };
        for query in [count("t", &slice.runs), group("t", &slice)] {
            assert!(query.contains("FROM t WHERE run IN (7, 8)"), "{query}");
        }
        assert!(group("t", &slice).contains("WHERE batch % 3 = 1 GROUP BY"));
    }

    #[test]
    fn a_row_is_a_batch_of_a_run() {
        let expected = StoredBatch {
            run: 4_294_967_295,
            connection: 2,
            batch: 3,
            rows: 5,
            uuids: 4,
        };
        assert_eq!(StoredBatch::parse("4294967295\t2\t3\t5\t4"), Some(expected));
        assert_eq!(StoredBatch::parse("1\t2\t3\t5"), None);
        assert_eq!(StoredBatch::parse("1\t70000\t3\t5\t4"), None);
    }
}
