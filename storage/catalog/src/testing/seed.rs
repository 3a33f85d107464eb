//! SQL for tests that write long lists past the catalog, which would take a transaction for each
//! row.

use super::TestDatabase;

/// Beginning of a statement that inserts numbered rows; `i` counts from 1 to `rows`.
#[must_use]
pub fn numbers(rows: u32) -> String {
    format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) ")
}

/// Expression that makes a UUID in SQL.
#[must_use]
pub fn random_uuid(database: &TestDatabase) -> &'static str {
    if database.is_sqlite() {
        "randomblob(16)"
    } else {
        "gen_random_uuid()"
    }
}

/// Statement that writes the newest runs of every export, as the catalog keeps them.
#[must_use]
pub fn latest_runs(database: &TestDatabase) -> String {
    let (group, array, id) = if database.is_sqlite() {
        ("json_group_array", "json_array", "lower(hex(runs.id))")
    } else {
        ("json_agg", "json_build_array", "runs.id")
    };
    format!(
        "INSERT INTO batch_export_latest_runs (batch_export_id, runs) SELECT batch_export_id, \
         {group}({array}({id}, ordinal, NULL, status, data_interval_start, data_interval_end, \
         records_completed, records_total_count, cursor, latest_error, runs.created_at, \
         finished_at, runs.last_updated_at) ORDER BY ordinal DESC) FROM batch_export_runs AS runs JOIN \
         batch_exports ON batch_exports.id = batch_export_id WHERE ordinal > runs_count - 10 \
         GROUP BY batch_export_id"
    )
}
