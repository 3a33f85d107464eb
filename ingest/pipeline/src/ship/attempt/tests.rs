//! A row that ClickHouse refuses while the log's disk refuses, too.

mod salvage;

use super::*;
use crate::ship::fake_sink::FakeSink;
use crate::ship::section::{Key, Section};
use crate::ship::unit::Ends;
use millrace_clickhouse::InsertOutcome;
use millrace_log::block::Compressor;
use millrace_log::fs::DiskFs;
use millrace_log::{Log, LogOptions, Position, SectionHeader};
use millrace_rows::testing::events;
use millrace_rows::{EventRow, Micros, Month, RowKey, Table, TeamId};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use uuid::Uuid;

const DECEMBER: Micros = Micros(1_796_083_200_000_000);

fn row() -> EventRow<'static> {
    EventRow {
        uuid: Uuid::from_u128(1),
        event: b"seen",
        properties: &[b"{}"],
        timestamp: DECEMBER,
        team_id: TeamId(1),
        distinct_id: b"somebody",
        created_at: DECEMBER,
        historical_migration: false,
    }
}

/// Refuses every insert, and from then on the segment is not to be had for a second.
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

/// A log with a frame of one row, and the row's unit.
fn logged(dir: &Path) -> (Log, Unit<FrameSection>) {
    logged_rows(dir, &[row()])
}

/// A log with a frame of one section, and the section's unit.
fn logged_rows(dir: &Path, rows: &[EventRow<'_>]) -> (Log, Unit<FrameSection>) {
    let options = LogOptions {
        dir: dir.to_owned(),
        segment_bytes: 1 << 21,
        bytes_max: 1 << 30,
    };
    let (mut log, _) = Log::open(options, Arc::new(DiskFs)).unwrap();
    let (mut bytes, mut blocks) = (Vec::new(), Vec::new());
    for row in rows {
        row.append_to(&mut bytes);
    }
    Compressor::new().compress_into(&bytes, &mut blocks);
    let month = Month::of(DECEMBER);
    let header = SectionHeader {
        insert_target: Table::Events.insert_target().to_owned(),
        month: month.0,
        rows: rows.len() as u32,
        uncompressed_bytes: bytes.len() as u64,
        keys: vec![row().key().to_bytes()],
    };
    log.append(&[millrace_log::Section {
        header: &header,
        blocks: &blocks,
    }])
    .unwrap();
    log.sync().unwrap();
    let frame = log.handle().reader(Position::FIRST).next().unwrap();
    let frame = frame.unwrap();
    let section = Section {
        place: Place {
            frame: frame.position,
            section: 0,
        },
        rows: header.rows,
        row_bytes: bytes.len() as u64,
        keys: vec![row().key()],
        is_suspect: false,
        source: frame.sections[0].clone(),
    };
    let unit = Unit {
        key: Key {
            insert_target: header.insert_target.into(),
            month,
        },
        ends: Ends {
            first: section.place,
            last: section.place,
        },
        sections: vec![section],
        range: None,
        start_mark: None,
        attempt: 0,
        in_doubt: false,
        is_suspect: false,
        run: None,
        is_part: false,
    };
    (log, unit)
}

fn only_file(dir: &Path, extension: &str) -> PathBuf {
    let paths = std::fs::read_dir(dir).unwrap().map(|it| it.unwrap().path());
    let mut found = paths.filter(|path| path.extension() == Some(extension.as_ref()));
    let path = found.next().unwrap();
    assert_eq!(found.next(), None);
    path
}

#[tokio::test(start_paused = true)]
async fn a_refused_row_is_set_aside_with_its_bytes_though_the_disk_refuses_for_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let (log, unit) = logged(dir.path());
    let poison = dir.path().join("poison");
    let context = Context {
        lane: "live",
        node: "node".to_owned(),
        prefix: "node-live".to_owned(),
        log: log.handle(),
        sink: refusing(only_file(dir.path(), "log")),
        poison_dir: PoisonDir::new(&poison),
        retries: Retries::new(1).0,
        stores: Stores::default(),
    };
    let verdict = Arc::new(context)
        .carry_out(0, Arc::new(unit), Standing::Fresh)
        .await;
    assert_eq!(verdict, Verdict::Settled);
    let set_aside = std::fs::read(only_file(&poison, "rowbinary")).unwrap();
    assert_eq!(events(&set_aside)[0].uuid, row().uuid);
}

/// A log with one row, whose every insert fails with a code that may be the server's.
fn failing(
    code: u32,
) -> (
    tempfile::TempDir,
    Log,
    Arc<Context<FakeSink>>,
    Unit<FrameSection>,
) {
    let dir = tempfile::tempdir().unwrap();
    let (log, unit) = logged(dir.path());
    let sink = FakeSink::answering(move || {
        Err(InsertError {
            outcome: InsertOutcome::Unknown,
            code: Some(code),
            message: "no".to_owned(),
        })
    });
    let context = Arc::new(Context {
        lane: "live",
        node: "node".to_owned(),
        prefix: "node-live".to_owned(),
        log: log.handle(),
        sink,
        poison_dir: PoisonDir::new(dir.path().join("poison")),
        retries: Retries::new(1).0,
        stores: Stores::default(),
    });
    (dir, log, context, unit)
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_refused_for_no_known_reason_is_set_aside_once_others_are_stored() {
    // What needs too much memory is never so small a row.
    for (code, is_set_aside) in [(395, true), (75, true), (241, false)] {
        let (dir, _log, context, unit) = failing(code);
        let (key, unit) = (unit.key.clone(), Arc::new(unit));
        for _ in 0..10 {
            context.stores.count(&key);
        }
        let first = Arc::clone(&context).carry_out(0, Arc::clone(&unit), Standing::Fresh);
        let unproven = Verdict::Unproven { can_halve: false };
        assert_eq!(first.await, unproven, "the server may be to blame");
        let mut carried_out = tokio::spawn(Arc::clone(&context).carry_out(0, unit, Standing::Last));
        let an_hour = Duration::from_secs(3_600);
        let waited = tokio::time::timeout(an_hour, &mut carried_out).await;
        assert!(waited.is_err() && !dir.path().join("poison").exists());
        let verdict = loop {
            context.stores.count(&key);
            let waited = tokio::time::timeout(Duration::from_secs(10), &mut carried_out).await;
            if let Ok(verdict) = waited {
                break verdict.unwrap();
            }
        };
        let expected = match is_set_aside {
            true => Verdict::Settled,
            false => unproven,
        };
        assert_eq!(verdict, expected, "{code}");
        assert_eq!(dir.path().join("poison").exists(), is_set_aside);
        if is_set_aside {
            let path = only_file(&dir.path().join("poison"), "rowbinary");
            assert_eq!(events(&std::fs::read(path).unwrap())[0].uuid, row().uuid);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rows_of_an_unknown_table_are_set_aside_section_by_section_where_nobody_proves_success() {
    let dir = tempfile::tempdir().unwrap();
    let (log, unit) = logged(dir.path());
    let poison = dir.path().join("poison");
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
    let mut next = unit.sections[0].clone();
    next.place.section = 1;
    let unit = Unit {
        key: Key {
            insert_target: "sessions(id)".into(),
            month: unit.key.month,
        },
        sections: vec![unit.sections[0].clone(), next],
        ..unit
    };
    let context = Context {
        lane: "live",
        node: "node".to_owned(),
        prefix: "node-live".to_owned(),
        log: log.handle(),
        sink,
        poison_dir: PoisonDir::new(&poison),
        retries: Retries::new(1).0,
        stores: Stores::default(),
    };
    let verdict = Arc::new(context)
        .carry_out(0, Arc::new(unit), Standing::Fresh)
        .await;
    assert_eq!(verdict, Verdict::Settled);
    let labels = std::fs::read_dir(&poison).unwrap();
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
