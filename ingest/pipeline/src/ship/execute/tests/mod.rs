//! Rows that ClickHouse refuses, also while the log's disk fails.

mod native;
mod salvage;
mod shards;

use super::*;
use crate::ship::fake_sink::FakeSink;
use crate::ship::insert_batch::LogSpan;
use crate::ship::section::{InsertKey, Section};
use millrace_blocks::Compressor;
use millrace_clickhouse::InsertOutcome;
use millrace_log::fs::DiskFs;
use millrace_log::{Log, LogOptions, Position, SectionHeader};
use millrace_rows::testing::events;
use millrace_rows::{EventRow, Micros, Month, ProjectId, Table};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::task::JoinHandle;
use uuid::Uuid;

const DECEMBER: Micros = Micros(1_796_083_200_000_000);

fn row() -> EventRow<'static> {
    EventRow {
        uuid: Uuid::from_u128(1),
        event: b"seen",
        properties: &[b"{}"],
        timestamp: DECEMBER,
        team_id: ProjectId(1),
        distinct_id: b"somebody",
        created_at: DECEMBER,
        historical_migration: false,
    }
}

/// A sink that refuses every insert, and from then on keeps the segment from being read for a
/// second.
fn refusing(segment: PathBuf) -> FakeSink {
    FakeSink::answering(move || {
        let (segment, away) = (segment.clone(), segment.with_extension("away"));
        std::fs::rename(&segment, &away).unwrap();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            std::fs::rename(away, segment).unwrap();
        });
        Err(InsertError {
            outcome: InsertOutcome::BadData,
            code: Some(117),
            message: "no".to_owned(),
        })
    })
}

/// A log with a frame of one row, and the row's insert batch.
fn logged(dir: &Path) -> (Log, InsertBatch<FrameSection>) {
    logged_rows(dir, &[row()])
}

/// A log with a frame of one section, and the section's insert batch.
fn logged_rows(dir: &Path, rows: &[EventRow<'_>]) -> (Log, InsertBatch<FrameSection>) {
    let (mut bytes, mut blocks) = (Vec::new(), Vec::new());
    for row in rows {
        row.append_to(&mut bytes);
    }
    Compressor::new().compress_into(&bytes, &mut blocks);
    logged_blocks(dir, (rows.len(), bytes.len()), &blocks)
}

/// A log with a frame of one section of these blocks, with the number of rows and their bytes.
fn logged_blocks(
    dir: &Path,
    (rows, row_bytes): (usize, usize),
    blocks: &[u8],
) -> (Log, InsertBatch<FrameSection>) {
    let options = LogOptions {
        dir: dir.to_owned(),
        segment_bytes: 1 << 21,
        bytes_max: 1 << 30,
    };
    let (mut log, _) = Log::open(options, Arc::new(DiskFs)).unwrap();
    let month = Month::of(DECEMBER);
    let header = SectionHeader {
        insert_target: Table::Events.insert_target().to_owned(),
        month: month.0,
        rows: rows as u32,
        uncompressed_bytes: row_bytes as u64,
        keys: vec![row().key().to_bytes()],
    };
    log.append(&[millrace_log::Section {
        header: &header,
        blocks,
    }])
    .unwrap();
    log.sync().unwrap();
    let frame = log.handle().reader(Position::FIRST).next().unwrap();
    let frame = frame.unwrap();
    let section = Section {
        position: SectionPosition {
            frame: frame.position,
            section: 0,
        },
        rows: header.rows,
        row_bytes: row_bytes as u64,
        keys: vec![row().key()],
        is_suspect: false,
        source: frame.sections[0].clone(),
    };
    let batch = InsertBatch {
        key: InsertKey {
            insert_target: header.insert_target.into(),
            month,
        },
        span: LogSpan {
            first: section.position,
            last: section.position,
        },
        sections: vec![section],
        range: None,
        start_mark: None,
        rows_mark: None,
        attempt: 0,
        in_doubt: false,
        is_suspect: false,
        boot_id: None,
        is_part: false,
    };
    (log, batch)
}

/// Context of a lane with this log.
fn insert_context<K>(log: &Log, sink: K, dead_letters: &Path) -> InsertContext<K> {
    InsertContext {
        lane: "live",
        node: "node".to_owned(),
        prefix: "node-live".to_owned(),
        log: log.handle(),
        insert_format: InsertFormat::default(),
        filled_columns: FilledColumns::default(),
        sink,
        dead_letters: DeadLetters::new(dead_letters, 0),
        retries: Retries::new(1).0,
        stored_counts: StoredCounts::default(),
        damaged_places: DamagedPlaces::default(),
    }
}

fn only_file(dir: &Path, extension: &str) -> PathBuf {
    let paths = std::fs::read_dir(dir).unwrap().map(|it| it.unwrap().path());
    let mut found = paths.filter(|path| path.extension() == Some(extension.as_ref()));
    let path = found.next().unwrap();
    assert_eq!(found.next(), None);
    path
}

#[tokio::test(start_paused = true)]
async fn a_refused_row_is_dead_lettered_with_its_bytes_although_the_disk_fails_for_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = logged(dir.path());
    let dead_letters = dir.path().join("dead-letters");
    let context = insert_context(&log, refusing(only_file(dir.path(), "log")), &dead_letters);
    let result = Arc::new(context)
        .execute(0, Arc::new(batch), DeliveryStage::First)
        .await;
    assert!(matches!(result, InsertResult::DeadLettered), "{result:?}");
    let dead_lettered = std::fs::read(only_file(&dead_letters, "rowbinary")).unwrap();
    assert_eq!(events(&dead_lettered)[0].uuid, row().uuid);
}

/// Returns true if rows that cannot be halved are to be proven bad.
fn is_unproven(result: &InsertResult) -> bool {
    matches!(
        result,
        InsertResult::Unproven {
            can_halve: false,
            ..
        }
    )
}

/// Waits for an execution while other rows of the key are stored, one insert in ten seconds.
async fn result_while_others_are_stored(
    context: &InsertContext<FakeSink>,
    key: &InsertKey,
    mut executed: JoinHandle<InsertResult>,
) -> InsertResult {
    loop {
        context.stored_counts.count(key);
        let waited = tokio::time::timeout(Duration::from_secs(10), &mut executed).await;
        if let Ok(result) = waited {
            return result.unwrap();
        }
    }
}

/// A log with one row, whose every insert fails with an answer that may be the server's.
fn failing(
    (outcome, code): (InsertOutcome, Option<u32>),
) -> (
    tempfile::TempDir,
    Log,
    Arc<InsertContext<FakeSink>>,
    InsertBatch<FrameSection>,
) {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = logged(dir.path());
    let sink = FakeSink::answering(move || {
        Err(InsertError {
            outcome,
            code,
            message: "no".to_owned(),
        })
    });
    let context = Arc::new(insert_context(&log, sink, &dir.path().join("dead-letters")));
    (dir, log, context, batch)
}

#[tokio::test(start_paused = true)]
async fn a_row_refused_for_no_known_reason_is_dead_lettered_once_others_are_stored() {
    // Too little memory (241) and a gateway's limit are never the fault of so small a row.
    for (outcome, code, is_dead_lettered) in [
        (InsertOutcome::Unknown, Some(395), true),
        (InsertOutcome::Unknown, Some(75), true),
        (InsertOutcome::Unknown, Some(241), false),
        (InsertOutcome::TooLarge, None, false),
    ] {
        let (dir, _log, context, batch) = failing((outcome, code));
        let (key, batch) = (batch.key.clone(), Arc::new(batch));
        for _ in 0..10 {
            context.stored_counts.count(&key);
        }
        let first = Arc::clone(&context).execute(0, Arc::clone(&batch), DeliveryStage::First);
        assert!(is_unproven(&first.await), "the server may be to blame");
        let mut executed =
            tokio::spawn(Arc::clone(&context).execute(0, batch, DeliveryStage::LastPart));
        let an_hour = Duration::from_secs(3_600);
        let waited = tokio::time::timeout(an_hour, &mut executed).await;
        assert!(waited.is_err() && !dir.path().join("dead-letters").exists());
        let result = result_while_others_are_stored(&context, &key, executed).await;
        match is_dead_lettered {
            true => assert!(matches!(result, InsertResult::DeadLettered), "{result:?}"),
            false => assert!(is_unproven(&result), "{result:?}"),
        }
        assert_eq!(dir.path().join("dead-letters").exists(), is_dead_lettered);
        if is_dead_lettered {
            let path = only_file(&dir.path().join("dead-letters"), "rowbinary");
            assert_eq!(events(&std::fs::read(path).unwrap())[0].uuid, row().uuid);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rows_of_an_unknown_table_are_dead_lettered_by_section_if_success_stays_unproven() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = logged(dir.path());
    let dead_letters = dir.path().join("dead-letters");
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let sink = FakeSink::answering(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Err(InsertError {
            outcome: InsertOutcome::Unproven,
            code: None,
            message: "success was answered".to_owned(),
        })
    });
    let mut next = batch.sections[0].clone();
    next.position.section = 1;
    let batch = InsertBatch {
        key: InsertKey {
            insert_target: "sessions(id)".into(),
            month: batch.key.month,
        },
        sections: vec![batch.sections[0].clone(), next],
        ..batch
    };
    let context = insert_context(&log, sink, &dead_letters);
    let result = Arc::new(context)
        .execute(0, Arc::new(batch), DeliveryStage::First)
        .await;
    assert!(matches!(result, InsertResult::Unknowable(_)), "{result:?}");
    let labels = std::fs::read_dir(&dead_letters).unwrap();
    let labels = labels.map(|file| file.unwrap().path());
    let labels: Vec<_> = labels
        .filter(|path| path.extension() == Some("json".as_ref()))
        .collect();
    assert_eq!(labels.len(), 2, "one of each section");
    for label in labels {
        let text = std::fs::read_to_string(label).unwrap();
        assert!(text.contains("does not know the table sessions"), "{text}");
    }
    assert_eq!(tries.load(Ordering::Relaxed), 8, "sent no more than that");
}

#[tokio::test(start_paused = true)]
async fn sections_of_an_unknown_table_that_a_gateway_refuses_stay_together() {
    let (_dir, _log, context, batch) = failing((InsertOutcome::TooLarge, None));
    let mut next = batch.sections[0].clone();
    next.position.section = 1;
    let sections = vec![batch.sections[0].clone(), next];
    for (insert_target, are_halved) in [("sessions(id)", false), ("events(uuid)", true)] {
        let batch = InsertBatch {
            key: InsertKey {
                insert_target: insert_target.into(),
                month: batch.key.month,
            },
            sections: sections.clone(),
            ..batch.clone()
        };
        let executed = Arc::clone(&context).execute(0, Arc::new(batch), DeliveryStage::First);
        let an_hour = Duration::from_secs(3_600);
        let result = tokio::time::timeout(an_hour, executed).await.unwrap();
        assert_eq!(is_unproven(&result), !are_halved, "{result:?}");
    }
}
