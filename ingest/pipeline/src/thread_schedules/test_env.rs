//! Fixture: a pipeline on a disk in memory, and clients that send to it.

use crate::{Ack, LaneOutput, Pipeline, PipelineOptions, Refusal, Running};
use millrace_blocks::decompress_into_vec;
use millrace_log::fs::Fs;
use millrace_log::testing::MemoryFs;
use millrace_log::{Log, LogHandle, LogOptions, Position};
use millrace_rows::{Batch, Lane, Micros, Month, RowGroup, RowKey, Table};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

const DIR: &str = "/logs";
/// Bytes of a few frames, so that some schedules begin a second segment.
const SEGMENT_BYTES: u64 = 1_024;
const LOG_BYTES_MAX: u64 = 1 << 20;

/// A row: its client, and its number there.
pub type Row = [u8; 2];

/// A row and the answer that its client got.
pub type SentRow = (Row, Result<Option<Position>, Refusal>);

pub struct TestEnv {
    pub fs: MemoryFs,
    pub pipeline: Pipeline,
    pub running: Running,
    pub live: LaneOutput,
    #[expect(dead_code, reason = "a lane whose output is gone ships nothing")]
    pub historical: LaneOutput,
}

impl TestEnv {
    pub fn start(ack: Ack) -> Self {
        Self::start_on(ack, thread::yield_now)
    }

    /// Starts on a disk that calls this before it writes or syncs.
    pub fn start_on(ack: Ack, pause: fn()) -> Self {
        let fs = MemoryFs::new().with_pause(pause);
        let options = PipelineOptions {
            log_dir: DIR.into(),
            log_bytes_max: LOG_BYTES_MAX,
            segment_bytes: SEGMENT_BYTES,
            queue_requests_max: 16,
            queue_bytes_max: 1 << 20,
            insert_bytes_max: PipelineOptions::INSERT_BYTES_MAX,
            ack,
        };
        let disk: Arc<dyn Fs> = Arc::new(fs.clone());
        let (pipeline, mut running) = Pipeline::start_on(&disk, &options).unwrap();
        let [live, historical] = <[LaneOutput; 2]>::try_from(running.take_outputs()).unwrap();
        Self {
            fs,
            pipeline,
            running,
            live,
            historical,
        }
    }
}

pub fn batch(lane: Lane, row: Row) -> Batch {
    let key = RowKey {
        id: Uuid::nil(),
        received_at: Micros(0),
        index: None,
    };
    let group = RowGroup {
        table: Table::Events,
        month: Month(202_611),
        rows: 1,
        bytes: row[..].into(),
        keys: vec![key],
    };
    Batch {
        lane,
        groups: vec![group],
    }
}

/// Sends rows one after the other, each when the one before was answered.
pub fn send(pipeline: &Pipeline, client: u8, rows: u8) -> Vec<SentRow> {
    let each = (0..rows).map(|number| {
        let row = [client, number];
        (row, send_one(pipeline, row))
    });
    each.collect()
}

pub fn send_one(pipeline: &Pipeline, row: Row) -> Result<Option<Position>, Refusal> {
    send_sized(pipeline, row, row.len())
}

/// Sends a row in a body of so many bytes.
pub fn send_sized(
    pipeline: &Pipeline,
    row: Row,
    bytes: usize,
) -> Result<Option<Position>, Refusal> {
    let slot = pipeline.reserve(Lane::Live, bytes)?;
    let committed = block_on(slot.submit(batch(Lane::Live, row), drop))?;
    Ok(committed.position)
}

/// Yields to other threads for a while.
pub fn dawdle(switches_max: u32) {
    for _ in 0..thread_rng().gen_range(0..=switches_max) {
        thread::yield_now();
    }
}

/// Rows of a log from a position on, each with the end of its frame.
pub fn rows(log: &LogHandle, from: Position) -> Vec<(Row, Position)> {
    let mut reader = log.reader(from);
    let mut found = Vec::new();
    while let Some(frame) = reader.next().unwrap() {
        for section in &frame.sections {
            let mut bytes = Vec::new();
            decompress_into_vec(&reader.read_blocks(section).unwrap(), &mut bytes, 1 << 20)
                .unwrap();
            let rows = bytes.as_chunks().0.iter();
            found.extend(rows.map(|row| (*row, frame.end)));
        }
    }
    found
}

/// Rows that a start finds in the log of live events.
pub fn rows_after_start(fs: &MemoryFs) -> Vec<(Row, Position)> {
    let options = LogOptions {
        dir: Path::new(DIR).join(Lane::Live.name()),
        segment_bytes: SEGMENT_BYTES,
        bytes_max: LOG_BYTES_MAX,
    };
    let (log, _) = Log::open(options, Arc::new(fs.clone())).unwrap();
    rows(&log.handle(), Position::FIRST)
}
