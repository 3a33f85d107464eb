//! Batches that are sent as native blocks, and those that are not.

use super::*;
use crate::ship::insert_batch::RowRange;
use millrace_clickhouse::{Body, BodyFormat};
use millrace_native::testing::decode;
use millrace_rows::{PropertyColumn, PropertyType, RowKey};
use std::sync::Mutex;

const FORMATS: [InsertFormat; 2] = [InsertFormat::NativePlain, InsertFormat::NativeLz4];

/// Events that differ in their names, of which the last comes first in the table.
fn named() -> [EventRow<'static>; 3] {
    let names: [&[u8]; 3] = [b"c", b"b", b"a"];
    names.map(|event| EventRow { event, ..row() })
}

/// Rows of a batch in a format, without property columns.
fn sent(log: &Log, batch: &Arc<InsertBatch<FrameSection>>, format: InsertFormat) -> SentRows {
    SentRows::of(&log.handle(), batch, format, &FilledColumns::default()).unwrap()
}

/// All pieces of a body, as many bytes as it says, without their compression.
async fn plain(sent: &SentRows) -> Vec<u8> {
    let (mut pieces, mut index) = (Vec::<Bytes>::new(), 0);
    while let Some(piece) = sent.piece(index).await.unwrap() {
        pieces.extend(piece);
        index += 1;
    }
    let bytes: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
    assert_eq!(bytes, sent.len_bytes());
    match sent.format() {
        BodyFormat::Native {
            is_compressed: false,
            ..
        } => pieces.concat(),
        _ => source::unpacked(&pieces).unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_events_is_a_block_that_knows_whether_keys_are_equal() {
    let dir = tempfile::tempdir().unwrap();
    let again = [named().as_slice(), &named()].concat();
    for (nth, (rows, keys_differ)) in [(named().to_vec(), true), (again, false)]
        .into_iter()
        .enumerate()
    {
        let (log, batch) = logged_rows(&dir.path().join(nth.to_string()), &rows);
        let batch = Arc::new(batch);
        for format in FORMATS {
            let sent = sent(&log, &batch, format);
            let expected = BodyFormat::Native {
                is_compressed: format == InsertFormat::NativeLz4,
                keys_differ,
            };
            assert_eq!(sent.format(), expected);
            let block = decode(&plain(&sent).await);
            assert_eq!(block.names, ["a", "b", "c"]);
            assert_eq!(block.events.len(), rows.len());
            assert!(block.events.is_sorted_by_key(|event| event.event.clone()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn parts_and_what_is_no_whole_batch_of_events_are_sent_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let (log, whole) = logged_rows(&dir.path().join("whole"), &named());
    let part = InsertBatch {
        is_part: true,
        ..whole.clone()
    };
    let cut = InsertBatch {
        range: Some(RowRange { from: 0, to: 2 }),
        ..whole.clone()
    };
    let of_another_table = InsertBatch {
        key: InsertKey {
            insert_target: "sessions(id)".into(),
            month: whole.key.month,
        },
        ..whole.clone()
    };
    let mut counted = whole.clone();
    counted.sections[0].rows = 4;
    let (log_of_one, one) = logged_rows(&dir.path().join("one"), &[row()]);
    let mut garbage = Vec::new();
    Compressor::new().compress_into(&[0xff; 40], &mut garbage);
    let (log_of_garbage, garbage) = logged_blocks(&dir.path().join("bad"), (3, 40), &garbage);
    for (what, log, batch) in [
        ("a part", &log, part),
        ("a range", &log, cut),
        ("another table", &log, of_another_table),
        ("rows that are not there", &log, counted),
        ("one row", &log_of_one, one),
        ("no rows", &log_of_garbage, garbage),
    ] {
        let batch = Arc::new(batch);
        for format in FORMATS {
            let sent = sent(log, &batch, format);
            assert_eq!(sent.format(), BodyFormat::RowBinary, "{what}");
        }
    }
    let sent = sent(&log, &Arc::new(whole), InsertFormat::RowBinary);
    assert_eq!(sent.format(), BodyFormat::RowBinary);
    assert_eq!(events(&plain(&sent).await).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_refused_block_is_sent_as_rows_before_any_is_dead_lettered() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = logged_rows(dir.path(), &named());
    let stored = Arc::new(Mutex::new(Vec::<RowKey>::new()));
    let keep = Arc::clone(&stored);
    let sink = FakeSink::answering_by_rows(move |bytes| {
        // A block begins with its number of columns, and these rows with a byte of their uuid.
        if bytes.first() == Some(&8) {
            return Err(InsertError {
                outcome: InsertOutcome::BadData,
                code: Some(117),
                message: "no".to_owned(),
            });
        }
        let rows = events(bytes).into_iter();
        keep.lock().unwrap().extend(rows.map(|row| RowKey {
            id: row.uuid,
            received_at: row.created_at,
            index: None,
        }));
        Ok(())
    });
    let dead_letters = dir.path().join("dead-letters");
    let context = Arc::new(InsertContext {
        insert_format: InsertFormat::NativeLz4,
        ..insert_context(&log, sink, &dead_letters)
    });
    let sent = Arc::clone(&context).execute(0, Arc::new(batch.clone()), DeliveryStage::First);
    let result = sent.await;
    assert!(matches!(result, InsertResult::Refused(_)), "{result:?}");
    assert!(stored.lock().unwrap().is_empty());
    for half in batch.halves().unwrap() {
        let sent = Arc::clone(&context).execute(0, Arc::new(half), DeliveryStage::First);
        let result = sent.await;
        assert!(matches!(result, InsertResult::Stored), "{result:?}");
    }
    assert_eq!(*stored.lock().unwrap(), [row().key(); 3]);
    assert!(!dead_letters.exists());
}

/// Flag of a test's events, and a flag of another project's.
fn flags() -> Vec<PropertyColumn> {
    let flag = |number, team_id| PropertyColumn {
        number,
        team_id: Some(ProjectId(team_id)),
        path: vec!["a".to_owned()],
        kind: PropertyType::Bool,
        bytes_max: 0,
    };
    vec![flag(1, 1), flag(2, 2)]
}

#[tokio::test(start_paused = true)]
async fn a_block_has_the_property_columns_of_its_projects() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = logged_rows(dir.path(), &named());
    let (batch, filled) = (Arc::new(batch), FilledColumns::default());
    filled.set(flags());
    for (format, expected) in [
        (InsertFormat::NativePlain, "property_1"),
        (InsertFormat::NativeLz4, "property_1"),
        (InsertFormat::RowBinary, ""),
    ] {
        let sent = SentRows::of(&log.handle(), &batch, format, &filled).unwrap();
        assert_eq!(sent.more_columns(), expected);
        if !expected.is_empty() {
            let block = decode(&plain(&sent).await);
            let names: Vec<&String> = block.properties.keys().collect();
            assert_eq!(names, [expected]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_block_with_a_column_that_the_server_lacks_is_sent_as_rows() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = logged_rows(dir.path(), &named());
    let answers = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&answers);
    let sink = FakeSink::answering_by_rows(move |bytes| {
        // A block of these rows begins with nine columns, or with the eight of the target.
        let first = bytes.first().copied().unwrap_or_default();
        keep.lock().unwrap().push(first);
        match first {
            9 => Err(InsertError {
                outcome: InsertOutcome::Misconfigured,
                code: Some(16),
                message: "No such column property_1".to_owned(),
            }),
            _ => Ok(()),
        }
    });
    let filled = FilledColumns::default();
    filled.set(flags());
    let context = Arc::new(InsertContext {
        insert_format: InsertFormat::NativeLz4,
        filled_columns: filled.clone(),
        ..insert_context(&log, sink, &dir.path().join("dead-letters"))
    });
    for _ in 0..2 {
        let batch = Arc::new(batch.clone());
        let result = Arc::clone(&context)
            .execute(0, batch, DeliveryStage::First)
            .await;
        assert!(matches!(result, InsertResult::Stored), "{result:?}");
    }
    filled.set(flags());
    let result = context.execute(0, Arc::new(batch), DeliveryStage::First);
    assert!(matches!(result.await, InsertResult::Stored));
    // As rows, whose first byte is one of their uuid; then without the columns, until they are set.
    let rows = row().uuid.as_u64_pair().0.to_le_bytes()[0];
    assert_eq!(*answers.lock().unwrap(), [9, rows, 8, 9, rows]);
}
