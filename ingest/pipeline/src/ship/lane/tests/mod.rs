//! Tests of a lane: disks without space, tasks that panic, rows that are refused.

mod bad_rows;

use super::*;
use crate::ship::fake_sink::FakeSink;
use millrace_blocks::Compressor;
use millrace_log::fs::Fs;
use millrace_log::testing::MemoryFs;
use millrace_log::{Log, LogHandle, LogOptions, Section, SectionHeader};
use millrace_rows::{EventRow, Lane, ProjectId, Table, TestClock};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::time::sleep;

const NOVEMBER: Micros = Micros(1_795_132_800_000_000);

/// Lane as its tests set it up: an empty log, and what a test holds of its shipper.
struct TestEnv {
    log: Log,
    /// End of the log, as the shipper sees it.
    synced: watch::Sender<Position>,
    /// Position up to which everything is shipped.
    settled: watch::Receiver<Position>,
    dead_letters: tempfile::TempDir,
}

impl TestEnv {
    /// Opens a log in the folder `dir`, and returns beside it what its shipper starts with.
    fn open(dir: impl Into<PathBuf>, fs: impl Fs + 'static) -> (Self, LaneOutput) {
        let options = LogOptions {
            dir: dir.into(),
            segment_bytes: 1 << 20,
            bytes_max: 1 << 30,
        };
        let (log, recovery) = Log::open(options, Arc::new(fs)).unwrap();
        let handle = log.handle();
        let (synced, synced_receiver) = watch::channel(handle.synced());
        let (shipped, settled) = watch::channel(handle.start());
        let output = LaneOutput {
            lane: Lane::Live,
            log: handle,
            synced: synced_receiver,
            shipped,
            updates_shipped: watch::channel(Position::FIRST).0,
            updates_wanted: watch::channel(Position::FIRST).1,
            recovery,
        };
        let env = Self {
            log,
            synced,
            settled,
            dead_letters: tempfile::tempdir().unwrap(),
        };
        (env, output)
    }

    /// Appends a frame of rows and syncs it; returns its position.
    fn append(&mut self, rows: &[EventRow<'_>]) -> Position {
        let (mut bytes, mut blocks) = (Vec::new(), Vec::new());
        for row in rows {
            row.append_to(&mut bytes);
        }
        Compressor::new().compress_into(&bytes, &mut blocks);
        let keys = rows.iter().take(4).map(|row| row.key().to_bytes());
        let header = SectionHeader {
            insert_target: Table::Events.insert_target().to_owned(),
            month: Month::of(NOVEMBER).0,
            rows: rows.len() as u32,
            uncompressed_bytes: bytes.len() as u64,
            keys: keys.collect(),
        };
        let section = Section {
            header: &header,
            blocks: &blocks,
        };
        let frame = self.log.append(&[section]).unwrap();
        self.synced.send_replace(self.log.sync().unwrap());
        frame
    }

    /// End of the log.
    fn end(&self) -> Position {
        *self.synced.borrow()
    }

    /// Opens the lane's shipper.
    async fn shipper(&self, output: LaneOutput, sink: FakeSink) -> Shipper<FakeSink> {
        let options = ShipOptions::of(Lane::Live, "node", self.dead_letters.path());
        let clock = Arc::new(TestClock::at(NOVEMBER));
        Shipper::open(options, output, sink, clock).await.unwrap()
    }

    /// Waits until everything is shipped.
    async fn wait_until_settled(&mut self) {
        let end = self.end();
        let all = self.settled.wait_for(|settled| *settled >= end);
        drop(all.await.unwrap());
    }
}

/// Row of November.
fn row(nth: u128, event: &[u8]) -> EventRow<'_> {
    EventRow {
        uuid: Uuid::from_u128(nth),
        event,
        properties: &[b"{}"],
        timestamp: NOVEMBER,
        team_id: ProjectId(1),
        distinct_id: b"somebody",
        created_at: NOVEMBER,
        historical_migration: false,
    }
}

/// Lane on a disk in memory, with a frame of one row.
fn with_a_row(fs: &MemoryFs) -> (TestEnv, LaneOutput) {
    let (mut env, output) = TestEnv::open("/log", fs.clone());
    env.append(&[row(1, b"seen")]);
    (env, output)
}

/// Damages the header of a frame in the log's first segment.
fn damage(fs: &MemoryFs, frame: Position) {
    let path = PathBuf::from("/log/00000000000000000001.log");
    let mut bytes = fs.read(&path).unwrap();
    bytes[frame.offset as usize] ^= 1;
    fs.put(&path, &bytes);
}

fn has_checkpoint(log: &LogHandle) -> bool {
    log.load_checkpoint().unwrap().is_some()
}

#[tokio::test(start_paused = true)]
async fn a_lane_without_disk_space_for_its_first_checkpoint_ships_once_there_is() {
    let fs = MemoryFs::new();
    let (mut env, output) = with_a_row(&fs);
    let handle = env.log.handle();
    fs.set_capacity(Some(0));
    let inserts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&inserts);
    let sink = FakeSink::answering(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let inserts = || inserts.load(Ordering::Relaxed);
    let shipper = env.shipper(output, sink).await;
    let running = tokio::spawn(shipper.run(std::future::pending()));
    // Far longer than rows wait, and than the pause after a failure.
    sleep(Duration::from_secs(60)).await;
    assert!(!running.is_finished());
    assert_eq!((inserts(), has_checkpoint(&handle)), (0, false));

    fs.set_capacity(None);
    env.wait_until_settled().await;
    assert_eq!((inserts(), has_checkpoint(&handle)), (1, true));
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_batchs_task_ends_the_lane() {
    let (env, output) = with_a_row(&MemoryFs::new());
    let sink = FakeSink::answering(|| panic!("a mistake of ours"));
    let shipper = env.shipper(output, sink).await;
    let ended = shipper.run(std::future::pending()).await;
    assert_names_the_place(ended, "1:64");
}

/// Asserts that a lane ended by a panic, whose error says where in which log.
fn assert_names_the_place(ended: Result<(), ShipError>, place: &str) {
    let error = match ended {
        Err(error @ ShipError::Task(_)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    for part in ["the live log: ", place, "a mistake of ours"] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_read_ends_the_lane() {
    for (is_damaged, reads, what) in [
        (false, 0, "a frame"),
        (true, 1, "what lies behind damage"),
        (false, 1, "the rows of a batch"),
    ] {
        let fs = MemoryFs::new();
        let (mut env, output) = TestEnv::open("/log", fs.clone());
        let frame = env.append(&[row(1, b"seen")]);
        if is_damaged {
            damage(&fs, frame);
        }
        let shipper = env.shipper(output, FakeSink::answering(|| Ok(()))).await;
        fs.set_panic_after_reads(reads);
        let run = shipper.run(std::future::pending());
        let ended = tokio::time::timeout(Duration::from_secs(600), run).await;
        let ended = ended.unwrap_or_else(|_| panic!("it goes on without {what}"));
        assert_names_the_place(ended, &frame.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn rows_count_as_shipped_only_once_a_stored_checkpoint_has_them() {
    let fs = MemoryFs::new();
    let (mut env, output) = with_a_row(&fs);
    let handle = env.log.handle();
    let full = fs.clone();
    let inserts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&inserts);
    let sink = FakeSink::answering(move || {
        full.set_capacity(Some(0));
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let shipper = env.shipper(output, sink).await;
    let running = tokio::spawn(shipper.run(std::future::pending()));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(inserts.load(Ordering::Relaxed), 1);
    let is_published = *env.settled.borrow() >= env.end();
    assert!(!is_published, "published before it was stored");
    let is_settled = || {
        let checkpoint = handle.load_checkpoint().unwrap().unwrap();
        String::from_utf8(checkpoint)
            .unwrap()
            .contains(r#""in_flight":[]"#)
    };
    assert!(!is_settled(), "the disk is full");
    fs.set_capacity(None);
    env.wait_until_settled().await;
    assert!(is_settled());
    running.abort();
}

thread_local! {
    /// True on the thread of a runtime.
    static IS_RUNTIME: Cell<bool> = const { Cell::new(false) };
}
static WRITTEN_BY_RUNTIME: AtomicUsize = AtomicUsize::new(0);

#[tokio::test(start_paused = true)]
async fn damage_is_skipped_on_a_thread_that_may_block() {
    let fs = MemoryFs::new().with_pause(|| {
        WRITTEN_BY_RUNTIME.fetch_add(usize::from(IS_RUNTIME.get()), Ordering::Relaxed);
    });
    let (mut env, output) = TestEnv::open("/log", fs.clone());
    let first = env.append(&[row(1, b"seen")]);
    env.append(&[row(1, b"seen")]);
    damage(&fs, first);
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let _local = metrics::set_default_local_recorder(&recorder);
    IS_RUNTIME.set(true);
    let shipper = env.shipper(output, FakeSink::answering(|| Ok(()))).await;
    let running = tokio::spawn(shipper.run(std::future::pending()));
    env.wait_until_settled().await;
    running.abort();
    let kept = fs
        .paths()
        .iter()
        .any(|path| path.starts_with("/log/quarantine"));
    assert!(kept, "the damage is skipped");
    let told = recorder.handle().render();
    let counted = "millrace_log_damaged_total{lane=\"live\"} 1";
    assert!(told.lines().any(|line| line == counted), "{told}");
    assert_eq!(WRITTEN_BY_RUNTIME.load(Ordering::Relaxed), 0);
}
