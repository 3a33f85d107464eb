//! Boot ids: an id of one start of a server, or of the starts of all shards together.
//!
//! The id is in a table that lives in the server's memory. The uptime would not do: it is in whole
//! seconds, and a server may be killed twice within one.

use crate::dialect::everywhere;
use crate::nonce::Nonce;
use crate::schema::BOOT_IDS;
use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};
use uuid::Uuid;

/// Answer to a query of `server_runs`, the table of boot ids.
#[derive(clickhouse::Row, serde::Deserialize)]
struct BootIdRow {
    nonce: String,
    /// Number of rows; without one the boot id means nothing.
    found: u64,
    #[serde(with = "clickhouse::serde::uuid")]
    boot_id: Uuid,
}

/// Boot id of a shard.
#[derive(clickhouse::Row, serde::Deserialize)]
struct ShardBootId {
    nonce: String,
    shard: u32,
    #[serde(with = "clickhouse::serde::uuid")]
    boot_id: Uuid,
}

impl ClickHouse {
    /// Asks for the server's boot id, which changes when it restarts, and only then. Of shards it
    /// is one for all: it changes when one restarts, or their number changes.
    ///
    /// `scope` is the name of the calling process: clones of a client ask one after the other, and
    /// share answers.
    ///
    /// # Errors
    /// If the server, or one of the shards, cannot be asked.
    pub async fn server_boot_id(&self, scope: &str) -> Result<Uuid, QueryError> {
        let asked = async {
            match self.is_sharded() {
                false => self.ask_for_boot_id(scope).await,
                true => self.ask_shards_for_boot_id(scope).await,
            }
        };
        self.boot_ids.ask(scope, asked).await
    }

    async fn ask_for_boot_id(&self, scope: &str) -> Result<Uuid, QueryError> {
        let table = format!("{}.{BOOT_IDS}", quoted_name(&self.settings.database));
        let scope = quoted_text(scope);
        // Always the same of two rows, if another process asks under our name. An aggregate answers
        // even if there is none: an answer without a row would prove nothing. Of no rows a profile
        // may have it answer NULL, and then its type is another one for any number of rows.
        let query = format!(
            "SELECT count() AS found, assumeNotNull(min(run)) AS boot_id FROM {table} \
             WHERE scope = {scope}"
        );
        if let Some(boot_id) = self.fetch_boot_id(&query).await? {
            return Ok(boot_id);
        }
        self.execute(&format!(
            "INSERT INTO {table} (scope, run) SELECT {scope}, generateUUIDv4() \
             SETTINGS async_insert = 0"
        ))
        .await?;
        self.fetch_boot_id(&query).await?.ok_or_else(forgotten)
    }

    async fn fetch_boot_id(&self, sql: &str) -> Result<Option<Uuid>, QueryError> {
        let nonce = Nonce::new();
        let answer = self.proving().query_raw(&nonce.put_into(sql)).fetch_one();
        let row: BootIdRow = self.within_deadline(answer).await?;
        nonce.check(&row.nonce)?;
        Ok((row.found > 0).then_some(row.boot_id))
    }

    /// Asks each shard, and has those make an id that have none.
    async fn ask_shards_for_boot_id(&self, scope: &str) -> Result<Uuid, QueryError> {
        let database = quoted_name(&self.settings.database);
        let table = format!("{database}.{}", quoted_name(&everywhere(BOOT_IDS)));
        let scope = quoted_text(scope);
        let query = format!(
            "SELECT _shard_num AS shard, min(run) AS boot_id FROM {table} \
             WHERE scope = {scope} GROUP BY shard"
        );
        let shards = self.shard_count().await?;
        let found = self.fetch_shard_boot_ids(&query).await?;
        let is_missing = |shard: &u32| found.iter().all(|row| row.shard != *shard);
        let missing: Vec<u32> = (1..=shards).filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(of_all(&found));
        }
        let insert = format!("INSERT INTO {table} (scope, run) SELECT {scope}, generateUUIDv4()");
        for shard in missing {
            let mut insert = self.client().query_raw(&insert);
            for (name, value) in self.shared_settings() {
                insert = insert.with_setting(name, value);
            }
            let insert = insert
                .with_setting("async_insert", "0")
                .with_setting("insert_shard_id", shard.to_string());
            self.within_deadline(insert.execute()).await?;
        }
        let found = self.fetch_shard_boot_ids(&query).await?;
        match found.len() as u64 == u64::from(shards) {
            true => Ok(of_all(&found)),
            false => Err(forgotten()),
        }
    }

    async fn fetch_shard_boot_ids(&self, sql: &str) -> Result<Vec<ShardBootId>, QueryError> {
        let nonce = Nonce::new();
        let query = self.proving().query_raw(&nonce.put_into(sql));
        let answer = self.seeing_quorum(query).fetch_all();
        let rows: Vec<ShardBootId> = self.within_deadline(answer).await?;
        for row in &rows {
            nonce.check(&row.nonce)?;
        }
        Ok(rows)
    }
}

/// Makes one id of those of all shards, in whatever order they are: random ids that differ in one
/// place differ in their sum.
fn of_all(shards: &[ShardBootId]) -> Uuid {
    let ids = shards.iter().map(|row| row.boot_id.as_u128());
    Uuid::from_u128(ids.fold(0, u128::wrapping_add))
}

fn forgotten() -> QueryError {
    QueryError::without_code("the server forgot the boot id it was just given".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(shard: u32, id: u128) -> ShardBootId {
        ShardBootId {
            nonce: String::new(),
            shard,
            boot_id: Uuid::from_u128(id),
        }
    }

    #[test]
    fn the_id_of_all_shards_changes_with_any_of_them_and_not_with_their_order() {
        let ids = of_all(&[row(1, 7), row(2, u128::MAX)]);
        assert_eq!(of_all(&[row(2, u128::MAX), row(1, 7)]), ids);
        assert_ne!(of_all(&[row(1, 8), row(2, u128::MAX)]), ids);
        assert_ne!(of_all(&[row(1, 7)]), ids);
    }
}
