//! From a batch to the log: acknowledged rows are there, refused ones are not.

use millrace_blocks::decompress_into_vec;
use millrace_log::{LogHandle, Position};
use millrace_pipeline::{Ack, LaneOutput, Pipeline, PipelineOptions, Refusal, Running};
use millrace_rows::{Batch, Lane, Micros, Month, RowGroup, RowKey, Table};
use tempfile::TempDir;
use uuid::Uuid;

pub const NOVEMBER: Month = Month(202_611);

pub struct Fixture {
    _dir: TempDir,
    pub pipeline: Pipeline,
    pub running: Running,
    pub live: LaneOutput,
    pub historical: LaneOutput,
}

fn options(dir: &TempDir) -> PipelineOptions {
    PipelineOptions {
        log_dir: dir.path().to_owned(),
        log_bytes_max: 64 << 20,
        segment_bytes: 1 << 20,
        queue_requests_max: 8,
        queue_bytes_max: 1 << 20,
        insert_bytes_max: PipelineOptions::INSERT_BYTES_MAX,
        ack: Ack::Disk,
    }
}

pub fn start(change: impl FnOnce(&mut PipelineOptions)) -> Fixture {
    let dir = TempDir::new().unwrap();
    let mut options = options(&dir);
    change(&mut options);
    let (pipeline, mut running) = Pipeline::start(&options).unwrap();
    let [live, historical] = <[LaneOutput; 2]>::try_from(running.take_outputs()).unwrap();
    Fixture {
        _dir: dir,
        pipeline,
        running,
        live,
        historical,
    }
}

/// Rows that differ in their bytes; the log does not look into them.
pub fn group(table: Table, month: Month, rows: u32, bytes: &[u8]) -> RowGroup {
    let key = RowKey {
        id: Uuid::from_u128(7),
        received_at: Micros(9),
        index: None,
    };
    RowGroup {
        table,
        month,
        rows,
        bytes: bytes.into(),
        keys: vec![key],
    }
}

pub fn batch(lane: Lane, groups: Vec<RowGroup>) -> Batch {
    Batch { lane, groups }
}

/// Sections of a log: table, month, number of rows and the rows' bytes.
fn sections(log: &LogHandle) -> Vec<(String, u32, u32, Vec<u8>)> {
    let mut reader = log.reader(Position::FIRST);
    let mut found = Vec::new();
    while let Some(frame) = reader.next().unwrap() {
        for section in &frame.sections {
            let mut rows = Vec::new();
            decompress_into_vec(&reader.read_blocks(section).unwrap(), &mut rows, 1 << 30).unwrap();
            assert_eq!(rows.len() as u64, section.header.uncompressed_bytes);
            assert!(!section.header.keys.is_empty());
            let table = section
                .header
                .insert_target
                .split('(')
                .next()
                .unwrap()
                .to_owned();
            found.push((table, section.header.month, section.header.rows, rows));
        }
    }
    found
}

pub async fn store(fixture: &Fixture, batch: Batch) -> Result<Option<Position>, Refusal> {
    let slot = fixture.pipeline.reserve(Lane::Live, batch.bytes())?;
    Ok(slot.submit(batch, drop).await?.position)
}

#[tokio::test]
async fn an_answered_batch_is_in_its_lanes_log() {
    let fixture = start(|_| {});
    let large: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    let groups = vec![
        group(Table::Events, NOVEMBER, 2, b"two rows"),
        group(Table::Events, Month(202_001), 250, &large),
        group(Table::RejectedEvents, NOVEMBER, 1, b"bad"),
    ];
    let position = store(&fixture, batch(Lane::Live, groups))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(fixture.live.log.synced(), position);
    let mut found = sections(&fixture.live.log);
    found.sort();
    let expected = [
        ("events".to_owned(), 202_001, 250, large),
        ("events".to_owned(), 202_611, 2, b"two rows".to_vec()),
        ("rejected_events".to_owned(), 202_611, 1, b"bad".to_vec()),
    ];
    assert_eq!(found, expected);
    assert!(sections(&fixture.historical.log).is_empty());
}

#[tokio::test]
async fn a_batch_goes_to_its_own_lane_whatever_was_reserved() {
    let fixture = start(|_| {});
    let rows = vec![group(Table::Events, NOVEMBER, 1, b"old")];
    store(&fixture, batch(Lane::Historical, rows))
        .await
        .unwrap();
    assert!(sections(&fixture.live.log).is_empty());
    assert_eq!(sections(&fixture.historical.log).len(), 1);
    assert_eq!(
        fixture.pipeline.queue_requests(Lane::Live),
        0,
        "the slot was given back"
    );
}

#[tokio::test]
async fn batches_that_wait_together_are_joined_by_table_and_month() {
    let fixture = start(|_| {});
    let all = (0..8_u8).map(|n| {
        store(
            &fixture,
            batch(
                Lane::Live,
                vec![group(Table::Events, NOVEMBER, 1, &[n; 10])],
            ),
        )
    });
    let answers: Vec<_> = all.collect();
    for answer in futures_util::future::join_all(answers).await {
        answer.unwrap();
    }
    let found = sections(&fixture.live.log);
    let rows: u32 = found.iter().map(|(_, _, rows, _)| rows).sum();
    let mut bytes: Vec<u8> = found.into_iter().flat_map(|(.., bytes)| bytes).collect();
    bytes.sort_unstable();
    assert_eq!(rows, 8);
    assert_eq!(bytes, (0..8_u8).flat_map(|n| [n; 10]).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_full_queue_refuses_before_anything_is_parsed() {
    let fixture = start(|_| {});
    let slots: Vec<_> = (0..8)
        .map(|_| fixture.pipeline.reserve(Lane::Live, 1).unwrap())
        .collect();
    assert_eq!(
        fixture.pipeline.reserve(Lane::Live, 1).err(),
        Some(Refusal::QueueFull)
    );
    assert!(
        fixture.pipeline.reserve(Lane::Historical, 1).is_ok(),
        "lanes have queues of their own"
    );
    drop(slots);
    assert!(
        fixture.pipeline.reserve(Lane::Live, 1).is_ok(),
        "dropped slots are free again"
    );
}

#[tokio::test]
async fn a_full_log_refuses_historical_batches_first() {
    let fixture = start(|options| options.log_bytes_max = 8 << 20);
    // Random bytes, as others would shrink when they are compressed.
    let mut state = 1_u64;
    let mut noise = || {
        let next = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        };
        (0..100_000).map(next).collect::<Vec<u8>>()
    };
    let mut refusals = Vec::new();
    for _ in 0..100 {
        if let Err(refusal) = fixture.pipeline.reserve(Lane::Historical, 1) {
            refusals.push(refusal);
        }
        let rows = vec![group(Table::Events, NOVEMBER, 1, &noise())];
        match store(&fixture, batch(Lane::Live, rows)).await {
            Ok(_) => {}
            Err(refusal) => {
                refusals.push(refusal);
                break;
            }
        }
    }
    refusals.dedup();
    assert_eq!(refusals, [Refusal::ImportLoadShed, Refusal::LogFull]);
    fixture.live.log.release(fixture.live.log.synced()).unwrap();
    assert!(
        fixture.pipeline.reserve(Lane::Historical, 1).is_ok(),
        "capacity returns without a restart"
    );
}

#[tokio::test]
async fn a_stop_commits_admitted_batches_and_refuses_further_ones() {
    let fixture = start(|options| options.ack = Ack::Memory);
    for n in 0..5_u8 {
        let rows = vec![group(Table::Events, NOVEMBER, 1, &[n])];
        assert_eq!(store(&fixture, batch(Lane::Live, rows)).await, Ok(None));
    }
    let (pipeline, log) = (fixture.pipeline.clone(), fixture.live.log.clone());
    tokio::task::spawn_blocking(|| fixture.running.stop())
        .await
        .unwrap();
    let rows: u32 = sections(&log).iter().map(|(_, _, rows, _)| rows).sum();
    assert_eq!(rows, 5);
    assert_eq!(
        pipeline.reserve(Lane::Live, 1).err(),
        Some(Refusal::ShuttingDown)
    );
}

#[tokio::test]
async fn with_ack_clickhouse_the_answer_waits_until_the_rows_are_shipped() {
    let fixture = start(|options| options.ack = Ack::ClickHouse);
    let rows = vec![group(Table::Events, NOVEMBER, 1, b"row")];
    let answer = store(&fixture, batch(Lane::Live, rows));
    let shipped = &fixture.live.shipped;
    let mut synced = fixture.live.synced.clone();
    let ship = async {
        synced.changed().await.unwrap();
        assert_eq!(
            fixture.pipeline.queue_requests(Lane::Live),
            1,
            "committed, not yet answered"
        );
        shipped.send_replace(*synced.borrow());
    };
    let (answer, ()) = tokio::join!(answer, ship);
    assert_eq!(answer.unwrap(), Some(fixture.live.log.synced()));
}

#[tokio::test]
async fn a_request_that_waits_for_clickhouse_gets_not_shipped_when_the_shipper_ends() {
    let fixture = start(|options| options.ack = Ack::ClickHouse);
    let rows = vec![group(Table::Events, NOVEMBER, 1, b"row")];
    let slot = fixture.pipeline.reserve(Lane::Live, 3).unwrap();
    drop(fixture.live.shipped);
    let answer = slot.submit(batch(Lane::Live, rows), drop).await;
    assert_eq!(answer.unwrap_err(), Refusal::NotShipped);
    assert_eq!(sections(&fixture.live.log).len(), 1);
}

#[tokio::test]
async fn rows_that_no_insert_can_hold_are_refused_and_those_that_outgrow_their_body_are_counted() {
    let fixture = start(|options| options.queue_bytes_max = 1 << 20);
    let of_bytes = |bytes: usize| {
        let group = group(Table::Events, NOVEMBER, 1, &vec![0; bytes]);
        batch(Lane::Live, vec![group])
    };
    let slot = fixture.pipeline.reserve(Lane::Live, 100).unwrap();
    let refused = slot.submit(of_bytes((128 << 20) + 1), drop).await;
    assert_eq!(refused.unwrap_err(), Refusal::TooLarge);

    let other = fixture.pipeline.reserve(Lane::Live, 100).unwrap();
    let slot = fixture.pipeline.reserve(Lane::Live, 100).unwrap();
    let refused = slot.submit(of_bytes(1 << 20), drop).await;
    assert_eq!(refused.unwrap_err(), Refusal::QueueFull);
    let slot = fixture.pipeline.reserve(Lane::Live, 100).unwrap();
    slot.submit(of_bytes(1 << 19), drop).await.unwrap();
    drop(other);
    // All of it was given back.
    let slot = fixture.pipeline.reserve(Lane::Live, 1 << 20).unwrap();
    slot.submit(of_bytes(1 << 20), drop).await.unwrap();
    assert!(sections(&fixture.historical.log).is_empty());
}
