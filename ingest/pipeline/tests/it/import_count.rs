//! Events of imports: counted with their group, refunded when they are not stored, and counted
//! again from the log.

use crate::commit::{NOVEMBER, batch, group, start};
use millrace_log::{LogHandle, Position};
use millrace_pipeline::{ImportReservation, Pipeline, PipelineOptions, Refusal, Running};
use millrace_rows::{EventRow, Lane, Micros, Month, ProjectId, RowGroup, Table};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

const PROJECT: ProjectId = ProjectId(7);
const OTHER: ProjectId = ProjectId(8);

/// A reservation of so many events, and the counter that it is refunded to.
fn reservation(project_id: ProjectId, events: u64) -> (ImportReservation, Arc<AtomicU64>) {
    let refund_to = Arc::new(AtomicU64::new(0));
    (
        ImportReservation::new(project_id, events, Arc::clone(&refund_to)),
        refund_to,
    )
}

/// A group of a project's events.
fn events(project_id: ProjectId, month: Month, count: u32) -> RowGroup {
    let mut bytes = Vec::new();
    for number in 0..count {
        let row = EventRow {
            uuid: Uuid::from_u128(u128::from(number)),
            event: b"e",
            properties: &[b"{}"],
            timestamp: Micros(5),
            team_id: project_id,
            distinct_id: b"somebody",
            created_at: Micros(6),
            historical_migration: true,
        };
        row.append_to(&mut bytes);
    }
    group(Table::Events, month, count, &bytes)
}

async fn import(pipeline: &Pipeline, project_id: ProjectId, count: u32) -> Position {
    let groups = vec![
        events(project_id, NOVEMBER, count),
        group(Table::RejectedEvents, NOVEMBER, 1, b"not an event"),
    ];
    let slot = pipeline.reserve(Lane::Historical, 100).unwrap();
    let (reservation, refund_to) = reservation(project_id, u64::from(count));
    let stored = slot.submit_counted(batch(Lane::Historical, groups), reservation, drop);
    let position = stored.await.unwrap().position.unwrap();
    assert_eq!(refund_to.load(Ordering::Acquire), 0);
    position
}

#[tokio::test]
async fn acknowledged_events_are_counted_with_the_position_they_were_counted_to() {
    let fixture = start(|_| {});
    let pipeline = &fixture.pipeline;
    let begun = pipeline.import_count();
    assert_eq!(begun.events, BTreeMap::new());
    import(pipeline, PROJECT, 3).await;
    let last = import(pipeline, OTHER, 5).await;
    let count = pipeline.import_count();
    assert_eq!(count.events, BTreeMap::from([(PROJECT, 3), (OTHER, 5)]));
    assert_eq!(count.counted_to, last);
    // Rejected events of an import move the position and do not count.
    let slot = pipeline.reserve(Lane::Historical, 100).unwrap();
    let refused = vec![group(Table::RejectedEvents, NOVEMBER, 1, b"x")];
    let stored = slot
        .submit(batch(Lane::Historical, refused), drop)
        .await
        .unwrap();
    assert_eq!(Some(pipeline.import_count().counted_to), stored.position);
    assert_eq!(pipeline.import_count().events, count.events);
    fixture.running.stop();
}

#[tokio::test]
async fn reserved_events_that_are_not_stored_are_refunded() {
    let fixture = start(|options| options.log_bytes_max = 3 << 20);
    let pipeline = &fixture.pipeline;
    let (dropped, refund_to) = reservation(PROJECT, 4);
    drop(dropped);
    assert_eq!(refund_to.load(Ordering::Acquire), 4);
    let mut stored = 0;
    let refusal = loop {
        let slot = match pipeline.reserve(Lane::Historical, 100) {
            Ok(slot) => slot,
            Err(refusal) => break refusal,
        };
        let noise: Vec<u8> = (0..1 << 20)
            .map(|at: u32| (at.wrapping_mul(at) >> 7) as u8)
            .collect();
        let rows = vec![group(Table::Events, NOVEMBER, 1, &noise)];
        let (reservation, refund_to) = reservation(PROJECT, 9);
        match slot
            .submit_counted(batch(Lane::Historical, rows), reservation, drop)
            .await
        {
            Ok(_) => stored += 9,
            Err(refusal) => {
                assert_eq!(refund_to.load(Ordering::Acquire), 9);
                break refusal;
            }
        }
    };
    assert!(
        matches!(refusal, Refusal::LogFull | Refusal::ImportLoadShed),
        "{refusal:?}"
    );
    let counted = pipeline.import_count().events.get(&PROJECT).copied();
    assert_eq!(counted.unwrap_or_default(), stored);
    // After this nobody commits any more.
    pipeline.close();
    fixture.running.stop();
}

fn reopen(dir: &Path) -> (Pipeline, Running, LogHandle) {
    let (pipeline, mut running) = Pipeline::start(&PipelineOptions {
        log_dir: dir.to_owned(),
        log_bytes_max: 64 << 20,
        segment_bytes: 1 << 20,
        queue_requests_max: 8,
        queue_bytes_max: 1 << 20,
        insert_bytes_max: PipelineOptions::INSERT_BYTES_MAX,
        ack: millrace_pipeline::Ack::Disk,
    })
    .unwrap();
    let mut outputs = running.take_outputs();
    let historical = outputs.pop().unwrap();
    assert_eq!(historical.lane, Lane::Historical);
    (pipeline, running, historical.log)
}

#[tokio::test]
async fn a_recount_finds_the_events_of_earlier_starts_from_a_position_on() {
    let dir = tempfile::tempdir().unwrap();
    let (pipeline, running, _) = reopen(dir.path());
    import(&pipeline, PROJECT, 1).await;
    let first = import(&pipeline, PROJECT, 10).await;
    import(&pipeline, PROJECT, 100).await;
    import(&pipeline, OTHER, 1_000).await;
    running.stop();
    drop(pipeline);
    let (pipeline, running, _log) = reopen(dir.path());
    // Events that come now are in the count and not counted twice.
    import(&pipeline, PROJECT, 10_000).await;
    let all = BTreeMap::from([(PROJECT, 111), (OTHER, 1_000)]);
    assert_eq!(pipeline.recount_imports(Position::FIRST).unwrap(), all);
    let later = BTreeMap::from([(PROJECT, 100), (OTHER, 1_000)]);
    assert_eq!(pipeline.recount_imports(first).unwrap(), later);
    let end = pipeline.import_count().counted_to;
    assert_eq!(pipeline.recount_imports(end).unwrap(), BTreeMap::new());
    running.stop();
}
