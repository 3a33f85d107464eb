//! Tables of a cluster that came from one shard or gets another one: renamed to what holds the rows
//! of a shard, and, if every shard has them whole, copied to those that lack rows.

use crate::definitions::unknown_cluster;
use crate::dialect::{Dialect, everywhere};
use crate::rejected_events::RESENT;
use crate::settings::{quoted_name, quoted_text};
use crate::stats::STATS;
use crate::{ClickHouse, MigrateError, PersonTable, QueryError, Replication};
use clickhouse::Client;
use clickhouse::error::Error;
use millrace_rows::Table;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::timeout;

/// Longest time of copying a table to a shard.
const COPY_MAX: Duration = Duration::from_secs(6 * 3_600);

/// Rows of a table on a shard; of several versions of a row the highest counts.
#[derive(clickhouse::Row, Clone, Copy, Debug, Deserialize)]
struct ShardRows {
    shard: u32,
    rows: u64,
    /// Sum of hashes of keys and versions: shards with the same rows have the same.
    hashes: u64,
}

/// Tables whose rows are spread over shards.
fn spread() -> impl Iterator<Item = &'static str> {
    Table::ALL
        .into_iter()
        .map(Table::name)
        .chain([RESENT, STATS])
}

impl ClickHouse {
    /// Asks for the number of shards; 1 without a cluster.
    ///
    /// # Errors
    /// If the server cannot be asked, or does not know the cluster.
    pub async fn shard_count(&self) -> Result<u32, QueryError> {
        let Some(cluster) = self.settings.sharded() else {
            return Ok(1);
        };
        let sql = format!(
            "SELECT assumeNotNull(toUInt64(max(shard_num))) FROM system.clusters WHERE cluster = {}",
            quoted_text(cluster)
        );
        let count = u32::try_from(self.fetch_u64(&sql).await?).unwrap_or(u32::MAX);
        match count {
            0 => Err(unknown_cluster(cluster)),
            count => Ok(count),
        }
    }

    /// Checks that each shard answers the host that is asked.
    pub(crate) async fn ask_each_shard(&self) -> Result<(), QueryError> {
        let Some(cluster) = self.settings.sharded() else {
            return Ok(());
        };
        let cluster = quoted_text(cluster);
        let sql = format!("SELECT count() FROM cluster({cluster}, system.one)");
        self.fetch_u64(&sql).await.map(drop)
    }

    /// Renames tables that a version before shards, or one server, has made, so that their rows are
    /// those of a shard. Safe to repeat.
    pub(crate) async fn rename_for_shards(&self, dialect: &Dialect) -> Result<(), MigrateError> {
        let renamed = match (self.settings.replication(), self.settings.sharded()) {
            (Some(Replication::Keeper), Some(_)) => {
                let tables = self.on_every_host("tables");
                self.rename(&self.client(), dialect, &tables).await
            }
            (Some(Replication::None), Some(_)) => {
                let mut renamed = Ok(());
                for url in self.hosts.urls() {
                    let client = self.client.clone().with_url(url);
                    renamed = self.rename(&client, dialect, "system.tables").await;
                    if renamed.is_err() {
                        break;
                    }
                }
                renamed
            }
            _ => Ok(()),
        };
        renamed.map_err(MigrateError::Shards)
    }

    async fn rename(
        &self,
        client: &Client,
        dialect: &Dialect,
        tables: &str,
    ) -> Result<(), QueryError> {
        let persons = PersonTable::ALL.into_iter().map(PersonTable::name);
        let names: Vec<String> = spread().chain(persons).map(quoted_text).collect();
        let sql = format!(
            "SELECT DISTINCT name, engine FROM {tables} WHERE database = {database} \
             AND name IN ({names}) AND engine LIKE '%MergeTree'",
            database = quoted_text(&self.settings.database),
            names = names.join(", "),
        );
        let found: Vec<(String, String)> = self
            .before_deadline(client.query_raw(&sql).fetch_all())
            .await?;
        for (table, engine) in found {
            let is_replicated = engine.starts_with("Replicated");
            if self.settings.tokens_are_atomic() && !is_replicated {
                return Err(not_replicated(&table));
            }
            if !spread().any(|name| name == table) {
                continue;
            }
            let rename = format!(
                "RENAME TABLE IF EXISTS {} TO {}{}",
                dialect.source(&table),
                dialect.source(&dialect.local(&table)),
                dialect.on_cluster(),
            );
            self.before_deadline(client.query_raw(&rename).execute())
                .await?;
        }
        Ok(())
    }

    /// Copies persons and groups to shards that lack some, or have some in older versions. Returns
    /// the number of tables that were copied. Safe to repeat, and while persons are applied.
    ///
    /// # Errors
    /// If the server cannot be asked, or refuses; then shards lack rows.
    pub async fn fill_shards(&self) -> Result<u32, QueryError> {
        let mut copied = 0;
        if !self.is_sharded() {
            return Ok(copied);
        }
        let shards = self.shard_count().await?;
        for table in PersonTable::ALL {
            // Usually one shard is new, and the fullest one has what it lacks.
            let found = self.rows_of_shards(table).await?;
            let Some(fullest) = fullest(&found) else {
                continue;
            };
            copied += self.copy_from(table, fullest, shards, &found).await?;
            // Each of two shards may have rows that the other one lacks.
            let found = self.rows_of_shards(table).await?;
            if differing(&found, fullest, shards).is_empty() {
                continue;
            }
            for shard in others(fullest, shards) {
                self.copy_to_shard(table, shard, fullest).await?;
                copied += 1;
            }
            let found = self.rows_of_shards(table).await?;
            copied += self.copy_from(table, fullest, shards, &found).await?;
        }
        Ok(copied)
    }

    /// Copies a table from a shard to those that have other rows.
    async fn copy_from(
        &self,
        table: PersonTable,
        from: u32,
        shards: u32,
        found: &[ShardRows],
    ) -> Result<u32, QueryError> {
        let differing = differing(found, from, shards);
        for shard in &differing {
            self.copy_to_shard(table, from, *shard).await?;
        }
        Ok(u32::try_from(differing.len()).unwrap_or(u32::MAX))
    }

    async fn rows_of_shards(&self, table: PersonTable) -> Result<Vec<ShardRows>, QueryError> {
        let sql = format!(
            "SELECT _shard_num AS shard, count() AS rows, \
             assumeNotNull(sum(cityHash64({columns}, version))) AS hashes \
             FROM {source} FINAL GROUP BY shard",
            columns = table.key_columns(),
            source = self.everywhere(table),
        );
        let query = self.seeing_quorum(self.proving().query_raw(&sql));
        self.within_deadline(query.fetch_all()).await
    }

    async fn copy_to_shard(
        &self,
        table: PersonTable,
        from: u32,
        to: u32,
    ) -> Result<(), QueryError> {
        let all = self.everywhere(table);
        let columns = table.columns();
        let sql = format!(
            "INSERT INTO {all} ({columns}) SELECT {columns} FROM {all} WHERE _shard_num = {from}"
        );
        let mut query = self.client().query_raw(&sql);
        let mut settings = self.shared_settings();
        settings.push(("insert_shard_id", to.to_string()));
        settings.push(("parallel_distributed_insert_select", "0".to_owned()));
        // A shard that lost rows may remember blocks of them.
        settings.push(("insert_deduplicate", "0".to_owned()));
        for (name, value) in settings {
            query = query.with_setting(name, value);
        }
        timeout(COPY_MAX, query.execute())
            .await
            .unwrap_or(Err(Error::TimedOut))
            .map_err(QueryError::from)
    }

    /// Table that writes to any shard, and reads all, of one that every shard has whole.
    pub(crate) fn everywhere(&self, table: PersonTable) -> String {
        let database = quoted_name(&self.settings.database);
        format!("{database}.{}", quoted_name(&everywhere(table.name())))
    }
}

/// Returns the shard that has the most rows; `None` if none has any.
fn fullest(found: &[ShardRows]) -> Option<u32> {
    let fullest = found.iter().max_by_key(|shard| shard.rows);
    fullest.map(|shard| shard.shard)
}

/// Lists the numbers of the other shards.
fn others(than: u32, shards: u32) -> impl Iterator<Item = u32> {
    (1..=shards).filter(move |shard| *shard != than)
}

/// Lists the shards that have other rows than one of them; one without any is not found.
fn differing(found: &[ShardRows], than: u32, shards: u32) -> Vec<u32> {
    let of = |number: u32| {
        let found = found.iter().find(|shard| shard.shard == number);
        found.map(|shard| (shard.rows, shard.hashes))
    };
    let differs = |shard: &u32| of(*shard) != of(than);
    others(than, shards).filter(differs).collect()
}

fn not_replicated(table: &str) -> QueryError {
    QueryError::without_code(format!(
        "the table {table} is not replicated; replicate it first (ATTACH TABLE … AS REPLICATED), or \
         set clickhouse_replication to none"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_with_other_rows_than_the_fullest_are_found_though_they_have_as_many() {
        let of = |shard, rows, hashes| ShardRows {
            shard,
            rows,
            hashes,
        };
        let table: [(&[ShardRows], Option<u32>, &[u32]); 5] = [
            (&[], None, &[]),
            (&[of(1, 2, 7), of(2, 2, 7), of(3, 2, 7)], Some(3), &[]),
            (&[of(1, 2, 7), of(2, 2, 8), of(3, 1, 1)], Some(2), &[1, 3]),
            (&[of(2, 2, 7)], Some(2), &[1, 3]),
            (&[of(1, 3, 9), of(3, 2, 7)], Some(1), &[2, 3]),
        ];
        for (found, expected, others) in table {
            assert_eq!(fullest(found), expected, "{found:?}");
            if let Some(fullest) = fullest(found) {
                assert_eq!(differing(found, fullest, 3), others, "{found:?}");
            }
        }
    }
}
