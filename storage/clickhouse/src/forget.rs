//! Forgetting what events said of persons, once it was applied long ago.
//!
//! By whole months: that takes no rewriting of parts, and is done or not.

use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};
use millrace_rows::{Month, Table};

impl ClickHouse {
    /// Drops the updates of persons that arrived in months before this one; answers those of which
    /// there were any, the first one first. Safe to ask again.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses; some months may be gone then.
    pub async fn forget_person_updates(&self, before: Month) -> Result<Vec<Month>, QueryError> {
        let table = Table::PersonUpdates.name();
        let sql = format!(
            "SELECT DISTINCT toUInt32(partition) AS month FROM {parts} \
             WHERE database = {database} AND table = {table} AND active AND month < {before} \
             ORDER BY month",
            parts = self.on_every_host("parts"),
            database = quoted_text(&self.settings.database),
            table = quoted_text(table),
        );
        let months: Vec<u32> = self
            .within_deadline(self.client.query_raw(&sql).fetch_all())
            .await?;
        for month in &months {
            // The server's limit is for people who mistype a name.
            self.execute(&format!(
                "ALTER TABLE {database}.{table}{on_cluster} DROP PARTITION {month} \
                 SETTINGS max_partition_size_to_drop = 0",
                database = quoted_name(&self.settings.database),
                table = quoted_name(table),
                on_cluster = self.on_cluster(),
            ))
            .await?;
        }
        Ok(months.into_iter().map(Month).collect())
    }
}
