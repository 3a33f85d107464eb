//! Fixture: a database per test, and rows to put into it.

use bytes::Bytes;
use clickhouse::{Client, Compression};
use millrace_clickhouse::{ClickHouse, Insert, InsertError, Settings};
use millrace_embedded::testing::{TestEngine, shared};
use millrace_rows::{EventRow, Micros, ProjectId, RowKey, Table};
use uuid::Uuid;

/// 2026-11-20T00:00:00Z.
pub const NOVEMBER: i64 = 1_795_132_800_000_000;
/// 2026-10-20T00:00:00Z.
pub const OCTOBER: i64 = 1_792_454_400_000_000;

pub struct Database {
    pub clickhouse: ClickHouse,
    pub settings: Settings,
    client: Client,
}

impl Database {
    /// Makes a database on the shared engine, with tables that never merge.
    pub async fn make(name: &str) -> Self {
        Self::make_on(shared(), name).await
    }

    pub async fn make_on(engine: &TestEngine, name: &str) -> Self {
        let mut settings = Settings::new(&engine.url, &engine.user, &engine.password);
        settings.database = name.to_owned();
        let client = Client::default()
            .with_url(&engine.url)
            .with_user(&engine.user)
            .with_password(&engine.password)
            .with_compression(Compression::None);
        let database = Self {
            clickhouse: ClickHouse::new(&settings),
            settings,
            client,
        };
        database
            .execute(&format!("DROP DATABASE IF EXISTS {name}"))
            .await;
        database.clickhouse.migrate().await.unwrap();
        database
            .execute(&format!(
                "ALTER TABLE {name}.events MODIFY SETTING \
                 max_bytes_to_merge_at_max_space_in_pool = 1, \
                 max_bytes_to_merge_at_min_space_in_pool = 1"
            ))
            .await;
        database
    }

    pub async fn execute(&self, sql: &str) {
        self.client.query_raw(sql).execute().await.unwrap();
    }

    pub async fn number(&self, sql: &str) -> u64 {
        let sql = sql.replace("{db}", &self.settings.database);
        self.client.query_raw(&sql).fetch_one().await.unwrap()
    }

    pub async fn texts(&self, sql: &str) -> Vec<String> {
        let sql = sql.replace("{db}", &self.settings.database);
        self.client.query_raw(&sql).fetch_all().await.unwrap()
    }

    pub async fn events(&self) -> u64 {
        self.number("SELECT count() FROM {db}.events").await
    }

    pub async fn parts(&self) -> u64 {
        self.number(
            "SELECT count() FROM system.parts \
             WHERE database = '{db}' AND table = 'events' AND active",
        )
        .await
    }

    pub async fn insert(&self, token: &str, rows: &[u8]) -> Result<(), InsertError> {
        self.insert_into(Table::Events.insert_target(), token, rows)
            .await
    }

    pub async fn insert_into(
        &self,
        insert_target: &str,
        token: &str,
        rows: &[u8],
    ) -> Result<(), InsertError> {
        let insert = Insert {
            insert_target,
            token,
            body: &vec![compressed(rows)],
        };
        self.clickhouse.insert(&insert).await
    }
}

/// RowBinary of events `ids`, all at `timestamp`.
pub fn events(ids: std::ops::Range<u64>, timestamp: i64) -> Vec<u8> {
    events_of(ProjectId(1), ids, timestamp)
}

/// RowBinary of events of a project.
pub fn events_of(project_id: ProjectId, ids: std::ops::Range<u64>, timestamp: i64) -> Vec<u8> {
    let mut out = Vec::new();
    for id in ids {
        let row = EventRow {
            uuid: Uuid::from_u128(u128::from(id)),
            event: b"seen",
            properties: &[b"{\"a\":1}"],
            timestamp: Micros(timestamp),
            team_id: project_id,
            distinct_id: b"somebody",
            created_at: received_at(id),
            historical_migration: false,
        };
        row.append_to(&mut out);
    }
    out
}

pub fn key(id: u64) -> RowKey {
    RowKey {
        id: Uuid::from_u128(u128::from(id)),
        received_at: received_at(id),
        index: None,
    }
}

fn received_at(id: u64) -> Micros {
    Micros(NOVEMBER + id as i64)
}

/// Compresses rows into ClickHouse's LZ4 blocks of 1 MiB.
pub fn compressed(rows: &[u8]) -> Bytes {
    let mut out = Vec::new();
    for piece in rows.chunks(1 << 20) {
        let data = lz4_flex::block::compress(piece);
        let mut covered = vec![0x82];
        covered.extend_from_slice(&(data.len() as u32 + 9).to_le_bytes());
        covered.extend_from_slice(&(piece.len() as u32).to_le_bytes());
        covered.extend_from_slice(&data);
        let checksum = cityhash_rs::cityhash_102_128(&covered).rotate_right(64);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&covered);
    }
    out.into()
}
