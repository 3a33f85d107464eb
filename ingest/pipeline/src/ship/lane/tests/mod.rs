//! Tests of a lane: disks without space, tasks that panic, rows that are refused.

mod bad_rows;

use super::*;
use crate::ship::fake_sink::FakeSink;
use millrace_log::block::Compressor;
use millrace_log::testing::MemoryFs;
use millrace_log::{Log, LogHandle, LogOptions, Recovery, Section, SectionHeader};
use millrace_rows::{EventRow, Lane, Table, TeamId, TestClock};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::time::sleep;

const NOVEMBER: Micros = Micros(1_795_132_800_000_000);

/// A log with a frame of one row, and the end of its synced part.
fn logged(fs: &MemoryFs) -> (Log, Recovery, Position) {
    let options = LogOptions {
        dir: PathBuf::from("/log"),
        segment_bytes: 1 << 20,
        bytes_max: 1 << 30,
    };
    let (mut log, recovery) = Log::open(options, Arc::new(fs.clone())).unwrap();
    let row = EventRow {
        uuid: Uuid::from_u128(1),
        event: b"seen",
        properties: &[b"{}"],
        timestamp: NOVEMBER,
        team_id: TeamId(1),
        distinct_id: b"somebody",
        created_at: NOVEMBER,
        historical_migration: false,
    };
    let (mut bytes, mut blocks) = (Vec::new(), Vec::new());
    row.append_to(&mut bytes);
    Compressor::new().compress_into(&bytes, &mut blocks);
    let header = SectionHeader {
        insert_target: Table::Events.insert_target().to_owned(),
        month: Month::of(NOVEMBER).0,
        rows: 1,
        uncompressed_bytes: bytes.len() as u64,
        keys: vec![row.key().to_bytes()],
    };
    log.append(&[Section {
        header: &header,
        blocks: &blocks,
    }])
    .unwrap();
    let end = log.sync().unwrap();
    (log, recovery, end)
}

fn has_checkpoint(log: &LogHandle) -> bool {
    log.load_checkpoint().unwrap().is_some()
}

#[tokio::test(start_paused = true)]
async fn a_lane_without_disk_space_for_its_first_checkpoint_ships_once_there_is() {
    let fs = MemoryFs::new();
    let (log, recovery, end) = logged(&fs);
    let handle = log.handle();
    let (_synced, synced) = watch::channel(end);
    let (shipped, mut settled) = watch::channel(handle.start());
    let output = LaneOutput {
        lane: Lane::Live,
        log: handle.clone(),
        synced,
        shipped,
        retention: Arc::default(),
        recovery,
    };
    let dead_letters_dir = tempfile::tempdir().unwrap();
    let options = ShipOptions::of(Lane::Live, "node", dead_letters_dir.path());
    fs.set_capacity(Some(0));
    let inserts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&inserts);
    let sink = FakeSink::answering(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let inserts = || inserts.load(Ordering::Relaxed);
    let clock = Arc::new(TestClock::at(NOVEMBER));
    let shipper = Shipper::open(options, output, sink, clock).await.unwrap();
    let running = tokio::spawn(shipper.run(std::future::pending()));
    // Far longer than rows wait, and than the pause after a failure.
    sleep(Duration::from_secs(60)).await;
    assert!(!running.is_finished());
    assert_eq!((inserts(), has_checkpoint(&handle)), (0, false));

    fs.set_capacity(None);
    let all = settled.wait_for(|settled| *settled >= end);
    all.await.unwrap();
    assert_eq!((inserts(), has_checkpoint(&handle)), (1, true));
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_an_inserts_task_ends_the_lane() {
    let fs = MemoryFs::new();
    let (log, recovery, end) = logged(&fs);
    let handle = log.handle();
    let (_synced, synced) = watch::channel(end);
    let (shipped, _settled) = watch::channel(handle.start());
    let output = LaneOutput {
        lane: Lane::Live,
        log: handle.clone(),
        synced,
        shipped,
        retention: Arc::default(),
        recovery,
    };
    let dead_letters_dir = tempfile::tempdir().unwrap();
    let options = ShipOptions::of(Lane::Live, "node", dead_letters_dir.path());
    let sink = FakeSink::answering(|| panic!("a mistake of ours"));
    let clock = Arc::new(TestClock::at(NOVEMBER));
    let shipper = Shipper::open(options, output, sink, clock).await.unwrap();
    let ended = shipper.run(std::future::pending()).await;
    assert!(matches!(ended, Err(ShipError::Task(_))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn rows_count_as_shipped_only_once_a_stored_checkpoint_has_them() {
    let fs = MemoryFs::new();
    let (log, recovery, end) = logged(&fs);
    let handle = log.handle();
    let (_synced, synced) = watch::channel(end);
    let (shipped, mut settled) = watch::channel(handle.start());
    let output = LaneOutput {
        lane: Lane::Live,
        log: handle.clone(),
        synced,
        shipped,
        retention: Arc::default(),
        recovery,
    };
    let dead_letters_dir = tempfile::tempdir().unwrap();
    let options = ShipOptions::of(Lane::Live, "node", dead_letters_dir.path());
    let full = fs.clone();
    let inserts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&inserts);
    let sink = FakeSink::answering(move || {
        full.set_capacity(Some(0));
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let clock = Arc::new(TestClock::at(NOVEMBER));
    let shipper = Shipper::open(options, output, sink, clock).await.unwrap();
    let running = tokio::spawn(shipper.run(std::future::pending()));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(inserts.load(Ordering::Relaxed), 1);
    assert!(*settled.borrow() < end, "published before it was stored");
    let is_settled = || {
        let checkpoint = handle.load_checkpoint().unwrap().unwrap();
        String::from_utf8(checkpoint)
            .unwrap()
            .contains(r#""in_flight":[]"#)
    };
    assert!(!is_settled(), "the disk is full");
    fs.set_capacity(None);
    settled.wait_for(|settled| *settled >= end).await.unwrap();
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
    let (mut log, recovery, _) = logged(&fs);
    let first = log
        .handle()
        .reader(Position::FIRST)
        .next()
        .unwrap()
        .unwrap();
    log.append(&[Section {
        header: &first.sections[0].header,
        blocks: &log
            .handle()
            .reader(Position::FIRST)
            .read_blocks(&first.sections[0])
            .unwrap(),
    }])
    .unwrap();
    let end = log.sync().unwrap();
    let path = PathBuf::from("/log/00000000000000000001.log");
    let mut bytes = fs.read(&path).unwrap();
    bytes[first.position.offset as usize] ^= 1;
    fs.put(&path, &bytes);
    let handle = log.handle();
    let (_synced, synced) = watch::channel(end);
    let (shipped, mut settled) = watch::channel(handle.start());
    let output = LaneOutput {
        lane: Lane::Live,
        log: handle,
        synced,
        shipped,
        retention: Arc::default(),
        recovery,
    };
    let dead_letters_dir = tempfile::tempdir().unwrap();
    let options = ShipOptions::of(Lane::Live, "node", dead_letters_dir.path());
    let sink = FakeSink::answering(|| Ok(()));
    let clock = Arc::new(TestClock::at(NOVEMBER));
    IS_RUNTIME.set(true);
    let shipper = Shipper::open(options, output, sink, clock).await.unwrap();
    let running = tokio::spawn(shipper.run(std::future::pending()));
    settled.wait_for(|settled| *settled >= end).await.unwrap();
    running.abort();
    let kept = fs
        .paths()
        .iter()
        .any(|path| path.starts_with("/log/quarantine"));
    assert!(kept, "the damage is skipped");
    assert_eq!(WRITTEN_BY_RUNTIME.load(Ordering::Relaxed), 0);
}
