//! Retention of person updates: months that were applied long ago are dropped.
//!
//! Whole months are dropped: that rewrites no parts, and is done or not.

use crate::dialect::Dialect;
use crate::nonce::Nonce;
use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};
use millrace_rows::{Month, Table};
use serde::Deserialize;

/// Months that have rows: one row, as an answer without any would have no nonce.
#[derive(clickhouse::Row, Deserialize)]
struct StoredMonths {
    nonce: String,
    months: Vec<u32>,
}

impl ClickHouse {
    /// Drops the person updates that arrived in months before this one; returns the months that had
    /// any, the oldest first. Safe to repeat.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses; some months may be gone then.
    pub async fn drop_person_updates(&self, before: Month) -> Result<Vec<Month>, QueryError> {
        let table = &self.local_name(Table::PersonUpdates.name());
        let sql = format!(
            "SELECT groupArray(month) AS months FROM (\
             SELECT DISTINCT toUInt32(partition) AS month FROM {parts} \
             WHERE database = {database} AND table = {table} AND active AND month < {before})",
            parts = self.on_every_host("parts"),
            database = quoted_text(&self.settings.database),
            table = quoted_text(table),
        );
        let nonce = Nonce::new();
        let answer = self.proving().query_raw(&nonce.put_into(&sql)).fetch_one();
        let stored: StoredMonths = self.within_deadline(answer).await?;
        nonce.check(&stored.nonce)?;
        let mut months = stored.months;
        months.sort_unstable();
        for month in &months {
            // Lifts the server's limit, which protects from mistyped names.
            self.execute_on_hosts(&format!(
                "ALTER TABLE {database}.{table}{on_cluster} DROP PARTITION {month} \
                 SETTINGS max_partition_size_to_drop = 0",
                database = quoted_name(&self.settings.database),
                table = quoted_name(table),
                on_cluster = Dialect::of(&self.settings).partitions_on_cluster(),
            ))
            .await?;
        }
        Ok(months.into_iter().map(Month).collect())
    }
}
