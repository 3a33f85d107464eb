//! A row that ClickHouse refuses while the log's disk refuses, too.

use super::*;
use crate::ship::fake_sink::FakeSink;
use crate::ship::section::{Key, Section};
use millrace_clickhouse::InsertOutcome;
use millrace_log::block::Compressor;
use millrace_log::fs::DiskFs;
use millrace_log::{Log, LogOptions, Position, SectionHeader};
use millrace_rows::testing::events;
use millrace_rows::{EventRow, Micros, Month, Table, TeamId};
use std::path::{Path, PathBuf};
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
    let options = LogOptions {
        dir: dir.to_owned(),
        segment_bytes: 1 << 20,
        bytes_max: 1 << 30,
    };
    let (mut log, _) = Log::open(options, Arc::new(DiskFs)).unwrap();
    let (mut bytes, mut blocks) = (Vec::new(), Vec::new());
    row().append_to(&mut bytes);
    Compressor::new().compress_into(&bytes, &mut blocks);
    let month = Month::of(DECEMBER);
    let header = SectionHeader {
        insert_target: Table::Events.insert_target().to_owned(),
        month: month.0,
        rows: 1,
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
        rows: 1,
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
        sections: vec![section],
        range: None,
        attempt: 0,
        in_doubt: false,
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
        prefix: "node".to_owned(),
        log: log.handle(),
        sink: refusing(only_file(dir.path(), "log")),
        poison_dir: PoisonDir::new(&poison),
    };
    let verdict = Arc::new(context).carry_out(Arc::new(unit)).await;
    assert_eq!(verdict, Verdict::Settled);
    let set_aside = std::fs::read(only_file(&poison, "rowbinary")).unwrap();
    assert_eq!(events(&set_aside)[0].uuid, row().uuid);
}
