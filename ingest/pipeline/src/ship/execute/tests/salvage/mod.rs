//! Salvage of readable rows of a section that is damaged in the log.

mod crashes;
mod memory_sink;
mod parts;
mod refused;

use super::*;
use memory_sink::MemorySink;

fn context(log: &Log, sink: &MemorySink, dead_letters: &Path) -> Arc<InsertContext<MemorySink>> {
    Arc::new(insert_context(log, sink.clone(), dead_letters))
}

/// Rows with the uuids from 1 on, each with its properties.
fn numbered_rows<'a>(properties: &'a [[&'a [u8]; 1]]) -> Vec<EventRow<'a>> {
    let numbered = (1_u128..).zip(properties);
    numbered
        .map(|(nth, properties)| EventRow {
            uuid: Uuid::from_u128(nth),
            properties,
            ..row()
        })
        .collect()
}

/// Flips a bit of a section in the only segment of a log; returns the section as it is then.
fn flip_bit(dir: &Path, raw: &[u8], at: usize) -> Vec<u8> {
    let segment = only_file(dir, "log");
    let mut file = std::fs::read(&segment).unwrap();
    let start = file.windows(64).position(|it| it == &raw[..64]).unwrap();
    file[start + at] ^= 1;
    std::fs::write(&segment, &file).unwrap();
    file[start..start + raw.len()].to_vec()
}

/// Bytes of rows in a block.
const BLOCK_ROWS_BYTES: usize = 64 << 10;

#[tokio::test(start_paused = true)]
async fn undamaged_rows_are_sent_once_and_the_blocks_are_dead_lettered_unchanged() {
    let text = |nth: usize| {
        let text = "x}".repeat(nth + 300);
        format!(r#"{{"text":"{text}","nested":{{"n":{nth}}}}}"#)
    };
    let texts: Vec<String> = (0..400).map(text).collect();
    let properties: Vec<[&[u8]; 1]> = texts.iter().map(|text| [text.as_bytes()]).collect();
    let rows = numbered_rows(&properties);
    let mut ends = Vec::new();
    let mut bytes = Vec::new();
    for row in &rows {
        row.append_to(&mut bytes);
        ends.push(bytes.len());
    }
    let count = bytes.len().div_ceil(BLOCK_ROWS_BYTES);
    assert!(count > 3, "blocks: {count}");
    for damaged in 0..count {
        let dir = tempfile::tempdir().unwrap();
        let (log, batch) = logged_rows(dir.path(), &rows);
        let batch = InsertBatch {
            boot_id: Some(Uuid::nil()),
            ..batch
        };
        let raw = source::read(&log.handle(), &batch.sections)
            .unwrap()
            .concat();
        let mut at = 0;
        for _ in 0..damaged {
            let covered: [u8; 4] = raw[at + 17..at + 21].try_into().unwrap();
            at += 16 + u32::from_le_bytes(covered) as usize;
        }
        let kept = flip_bit(dir.path(), &raw, at + 40);

        let sink = MemorySink::default();
        let dead_letters = dir.path().join("dead-letters");
        // A second time, as after a crash before the outcome was recorded.
        for _ in 0..2 {
            let context = context(&log, &sink, &dead_letters);
            let batch = Arc::new(batch.clone());
            let result = context.execute(0, batch, DeliveryStage::First).await;
            assert!(matches!(result, InsertResult::DeadLettered), "{result:?}");
        }
        let gone = damaged * BLOCK_ROWS_BYTES..(damaged + 1) * BLOCK_ROWS_BYTES;
        let sound = rows.iter().enumerate().filter(|(nth, _)| {
            let start = nth.checked_sub(1).map_or(0, |before| ends[before]);
            ends[*nth] <= gone.start || start >= gone.end
        });
        let sound: Vec<Uuid> = sound.map(|(_, row)| row.uuid).collect();
        assert_eq!(sink.uuids(), sound, "block {damaged}");
        assert!(std::fs::read(only_file(&dead_letters, "blocks")).unwrap() == kept);
        let label = std::fs::read_to_string(only_file(&dead_letters, "json")).unwrap();
        let says = format!("{} of {} rows can be read", sound.len(), rows.len());
        assert!(label.contains(&says), "{label}");
    }
}

/// A log with 400 rows in a section, of which the first or the last block is damaged.
fn damaged(dir: &Path, is_first: bool) -> (Log, InsertBatch<FrameSection>) {
    let texts: Vec<String> = (0..400)
        .map(|nth| format!(r#"{{"text":"{nth:0>400}"}}"#))
        .collect();
    let properties: Vec<[&[u8]; 1]> = texts.iter().map(|text| [text.as_bytes()]).collect();
    let rows = numbered_rows(&properties);
    let (log, batch) = logged_rows(dir, &rows);
    damage(dir, &log, &batch, is_first);
    (log, batch)
}

/// Damages the first or the last block of a batch's only section.
fn damage(dir: &Path, log: &Log, batch: &InsertBatch<FrameSection>, is_first: bool) {
    let raw = source::read(&log.handle(), &batch.sections)
        .unwrap()
        .concat();
    flip_bit(dir, &raw, if is_first { 40 } else { raw.len() - 5 });
}

#[tokio::test(start_paused = true)]
async fn damage_and_what_becomes_of_its_rows_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = damaged(dir.path(), true);
    let batch = InsertBatch {
        boot_id: Some(Uuid::nil()),
        ..batch
    };
    let sink = MemorySink::default();
    let context = context(&log, &sink, &dir.path().join("dead-letters"));
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let _local = metrics::set_default_local_recorder(&recorder);
    let batch = Arc::new(batch);
    let result = context.execute(0, batch, DeliveryStage::First).await;
    assert!(matches!(result, InsertResult::DeadLettered), "{result:?}");
    let stored = sink.uuids().len();
    assert!((101..400).contains(&stored), "{stored}");
    let told = recorder.handle().render();
    for (name, count) in [
        ("millrace_log_damaged_total", 1),
        ("millrace_insert_rows_salvaged_total", stored),
        ("millrace_insert_rows_dead_lettered_total", 400 - stored),
    ] {
        let counted = format!("{name}{{lane=\"live\"}} {count}");
        assert!(
            told.lines().any(|line| line == counted),
            "{counted}: {told}"
        );
    }
}

/// A context whose every insert fails alike, and the number of inserts so far.
fn refusing_all(
    (log, (outcome, code)): (&Log, (InsertOutcome, u32)),
    dead_letters: &Path,
    retries: Retries,
) -> (Arc<InsertContext<FakeSink>>, Arc<AtomicU32>) {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let sink = FakeSink::answering(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Err(InsertError {
            outcome,
            code: Some(code),
            message: "no".to_owned(),
        })
    });
    let context = InsertContext {
        retries,
        ..insert_context(log, sink, dead_letters)
    };
    (Arc::new(context), tries)
}
