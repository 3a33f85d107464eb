//! Fixture: a lane whose log the test writes, and the engine it ships to.

use clickhouse::{Client, Compression};
use millrace_blocks::Compressor;
use millrace_clickhouse::{ClickHouse, Settings};
use millrace_embedded::testing::TestEngine;
use millrace_log::fs::DiskFs;
use millrace_log::{Log, LogOptions, OpenError, Position, Recovery, Section, SectionHeader};
use millrace_pipeline::LaneOutput;
use millrace_pipeline::ship::{self, InsertFormat, Limits, ShipError, ShipOptions};
use millrace_rows::{EventRow, Lane, Micros, Month, ProjectId, RowKey, SystemClock, Table};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// 2026-11-20T00:00:00Z, and a month and two years earlier.
pub const TIMES: [i64; 3] = [
    1_795_132_800_000_000,
    1_792_454_400_000_000,
    1_732_060_800_000_000,
];

pub const LIMITS: Limits = Limits {
    rows_target: 5_000,
    bytes_target: 8 << 20,
    age_recent: Duration::from_millis(50),
    age_old: Duration::from_millis(100),
    early_every: Duration::from_secs(1),
    early_max: 8,
    in_flight_max: 3,
    sections_max: 1_000,
    parts_max: 128,
};

/// Formats of inserts, with names for databases.
pub const FORMATS: [(&str, InsertFormat); 3] = [
    ("rows", InsertFormat::RowBinary),
    ("plain", InsertFormat::NativePlain),
    ("lz4", InsertFormat::NativeLz4),
];

pub struct Database {
    pub clickhouse: ClickHouse,
    pub client: Client,
    name: String,
}

impl Database {
    pub fn on(engine: &TestEngine, name: &str) -> Self {
        let settings = Settings::new(&engine.url, &engine.user, &engine.password);
        Self::with(engine, name, settings)
    }

    /// A database that the shipper reaches at another address, with shorter timeouts.
    pub fn behind(engine: &TestEngine, name: &str, url: &str, timeout: Duration) -> Self {
        let mut settings = Settings::new(url, &engine.user, &engine.password);
        settings.insert_timeout = timeout;
        settings.query_timeout = timeout;
        Self::with(engine, name, settings)
    }

    fn with(engine: &TestEngine, name: &str, mut settings: Settings) -> Self {
        settings.database = name.to_owned();
        let client = Client::default()
            .with_url(&engine.url)
            .with_user(&engine.user)
            .with_password(&engine.password)
            .with_compression(Compression::None);
        Self {
            clickhouse: ClickHouse::new(&settings),
            client,
            name: name.to_owned(),
        }
    }

    /// Makes tables that never merge: every row that was stored twice stays twice.
    pub async fn migrate(&self) {
        self.clickhouse.migrate().await.unwrap();
        self.execute(
            "ALTER TABLE {db}.events MODIFY SETTING \
             max_bytes_to_merge_at_max_space_in_pool = 1, \
             max_bytes_to_merge_at_min_space_in_pool = 1",
        )
        .await;
    }

    pub async fn execute(&self, sql: &str) {
        let sql = sql.replace("{db}", &self.name);
        self.client.query_raw(&sql).execute().await.unwrap();
    }

    pub async fn number(&self, sql: &str) -> u64 {
        let sql = sql.replace("{db}", &self.name);
        self.client.query_raw(&sql).fetch_one().await.unwrap()
    }

    /// Number of rows, and of different rows.
    pub async fn counts(&self) -> (u64, u64) {
        (
            self.number("SELECT count() FROM {db}.events").await,
            self.number("SELECT uniqExact(uuid) FROM {db}.events").await,
        )
    }
}

/// Writing end of a lane, in place of the commit thread.
pub struct Writer {
    pub log: Log,
    synced: watch::Sender<Position>,
    shipped: watch::Receiver<Position>,
    next_id: u64,
    compressor: Compressor,
}

pub struct Shipping {
    task: JoinHandle<Result<(), ShipError>>,
    stop: oneshot::Sender<()>,
}

/// Opens the lane in `dir` and starts its shipper.
pub fn start(dir: &Path, database: &Database, limits: Limits) -> (Writer, Shipping) {
    start_with(dir, database, limits, InsertFormat::default())
}

/// Opens the lane in `dir` and starts its shipper, which sends batches in a format.
pub fn start_with(
    dir: &Path,
    database: &Database,
    limits: Limits,
    insert_format: InsertFormat,
) -> (Writer, Shipping) {
    let options = LogOptions {
        dir: dir.join("live"),
        segment_bytes: 1 << 20,
        bytes_max: 1 << 30,
    };
    let (log, recovery) = open(&options);
    let handle = log.handle();
    let (synced, synced_receiver) = watch::channel(handle.synced());
    let (shipped, shipped_receiver) = watch::channel(handle.start());
    let output = LaneOutput {
        lane: Lane::Live,
        log: handle,
        synced: synced_receiver,
        shipped,
        updates_shipped: watch::channel(Position::FIRST).0,
        updates_wanted: watch::channel(Position::FIRST).1,
        recovery,
    };
    let mut options = ShipOptions::of(Lane::Live, "node", dir.join("dead-letters"));
    options.limits = limits;
    options.insert_format = insert_format;
    let (stop, stopped) = oneshot::channel::<()>();
    let clickhouse = database.clickhouse.clone();
    let task = tokio::spawn(async move {
        let shutdown = async {
            let _ = stopped.await;
            Duration::from_secs(60)
        };
        ship::run(options, output, clickhouse, Arc::new(SystemClock), shutdown).await
    });
    let writer = Writer {
        log,
        synced,
        shipped: shipped_receiver,
        next_id: 0,
        compressor: Compressor::new(),
    };
    (writer, Shipping { task, stop })
}

/// Opens the log once the tasks of a crashed shipper have released it.
fn open(options: &LogOptions) -> (Log, Recovery) {
    loop {
        match Log::open(options.clone(), Arc::new(DiskFs)) {
            Err(OpenError::Locked { .. }) => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

impl Shipping {
    /// Stops the shipper as SIGTERM does.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap().unwrap();
    }

    /// Aborts the shipper as a crash does.
    pub async fn crash(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

impl Writer {
    /// Goes on numbering rows where an earlier writer ended.
    pub fn continue_from(&mut self, id: u64) {
        self.next_id = id;
    }

    /// Rows written so far, by all writers.
    pub fn rows(&self) -> u64 {
        self.next_id
    }

    /// Appends one frame with a section of `rows` events for each time, and syncs.
    pub fn write(&mut self, times: &[i64], rows: u64, properties: &[u8]) {
        let mut sections = Vec::new();
        for &time in times {
            let mut bytes = Vec::new();
            let mut keys = Vec::new();
            for _ in 0..rows {
                let row = EventRow {
                    properties: &[properties],
                    ..event(self.next_id, time)
                };
                row.append_to(&mut bytes);
                if keys.len() < 4 {
                    keys.push(row.key());
                }
                self.next_id += 1;
            }
            sections.push(self.section(time, rows, &bytes, &keys));
        }
        self.append(&sections);
    }

    pub fn section(
        &mut self,
        time: i64,
        rows: u64,
        bytes: &[u8],
        keys: &[RowKey],
    ) -> (SectionHeader, Vec<u8>) {
        let mut blocks = Vec::new();
        self.compressor.compress_into(bytes, &mut blocks);
        let header = SectionHeader {
            insert_target: Table::Events.insert_target().to_owned(),
            month: Month::of(Micros(time)).0,
            rows: rows as u32,
            uncompressed_bytes: bytes.len() as u64,
            keys: keys.iter().map(|key| key.to_bytes()).collect(),
        };
        (header, blocks)
    }

    pub fn append(&mut self, sections: &[(SectionHeader, Vec<u8>)]) {
        let sections: Vec<Section<'_>> = sections
            .iter()
            .map(|(header, blocks)| Section { header, blocks })
            .collect();
        self.log.append(&sections).unwrap();
        let end = self.log.sync().unwrap();
        self.synced.send_replace(end);
    }

    /// Waits until everything that was written is settled.
    pub async fn settled(&mut self) {
        let end = *self.synced.borrow();
        self.shipped
            .wait_for(|shipped| *shipped >= end)
            .await
            .unwrap();
    }
}

/// Returns the event with a number; the caller sets its properties.
pub fn event(id: u64, time: i64) -> EventRow<'static> {
    EventRow {
        uuid: Uuid::from_u128(u128::from(id) + 1),
        event: b"seen",
        properties: &[],
        timestamp: Micros(time),
        team_id: ProjectId(1),
        distinct_id: b"somebody",
        created_at: Micros(TIMES[0] + id as i64),
        historical_migration: false,
    }
}
