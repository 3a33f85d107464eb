//! Framing and mapping of Parquet.

use crate::support::{Frame, frames, frames_from, opened, plain, stream, try_map};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, Float64Array, Int64Array,
    ListArray, MapArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use millrace_sources::testing::{Bomb, Outcome, int96_bytes, int96_file, parquet_bombs};
use millrace_sources::{FileError, Format, Options, Position};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;

const AT_MICROS: i64 = 1_697_380_200_123_456;

/// Writes a file of `rows` rows in groups of `group_rows`.
fn file(rows: i64, group_rows: usize, compression: Compression) -> Vec<u8> {
    let columns: [(&str, ArrayRef); 7] = [
        (
            "event",
            Arc::new(StringArray::from_iter_values((0..rows).map(|_| "Paid"))),
        ),
        (
            "distinct_id",
            Arc::new(StringArray::from_iter_values(
                (0..rows).map(|row| format!("user-{row}")),
            )),
        ),
        (
            "timestamp",
            Arc::new(
                TimestampMicrosecondArray::from_iter_values((0..rows).map(|row| AT_MICROS + row))
                    .with_timezone("UTC"),
            ),
        ),
        (
            "amount",
            Arc::new(Float64Array::from_iter(
                (0..rows).map(|row| (row % 2 == 0).then_some(9.5)),
            )),
        ),
        ("count", Arc::new(Int64Array::from_iter_values(0..rows))),
        (
            "code",
            Arc::new(StringArray::from_iter_values((0..rows).map(|_| "007\n5"))),
        ),
        (
            "ok",
            Arc::new(BooleanArray::from_iter((0..rows).map(|_| Some(true)))),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group_rows))
        .set_compression(compression)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn rows(bytes: &[u8]) -> Vec<Frame> {
    frames(Format::Parquet, &Options::default(), bytes)
}

#[test]
fn rows_are_typed_objects_with_every_compression() {
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let gzip = Compression::GZIP(parquet::basic::GzipLevel::default());
    let brotli = Compression::BROTLI(parquet::basic::BrotliLevel::default());
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::LZ4_RAW,
        zstd,
        gzip,
        brotli,
    ] {
        let found = rows(&file(3, 2, compression));
        assert_eq!(found.len(), 3);
        let expected = json!({
            "event": "Paid", "distinct_id": "user-2", "timestamp": "2023-10-15T14:30:00.123458Z", "amount": 9.5,
            "count": 2, "code": "007\n5", "ok": true});
        assert_eq!(found[2].value(), expected);
    }
}

#[test]
fn a_row_becomes_an_event_with_its_types() {
    let found = rows(&file(2, 2, Compression::SNAPPY));
    let event = try_map(Format::Parquet, &Options::default(), &found[1].raw).unwrap();
    assert_eq!(event.one()["timestamp"], "2023-10-15T14:30:00.123457Z");
    assert_eq!(
        serde_json::Value::Object(event.properties()),
        json!({"count": 1, "code": "007\n5", "ok": true})
    );
}

#[test]
fn rows_do_not_depend_on_the_starting_position() {
    let bytes = file(25, 10, Compression::SNAPPY);
    let whole = rows(&bytes);
    assert_eq!(whole.len(), 25);
    assert_eq!(whole[9].next, whole[10].at);
    assert_eq!((whole[10].at.offset, whole[10].at.ordinal), (1, 10));
    for (index, row) in whole.iter().enumerate() {
        let from = |at| frames_from(Format::Parquet, &Options::default(), &bytes, at);
        assert_eq!(from(row.at), whole[index..]);
        assert_eq!(from(row.next), whole[index + 1..]);
    }
    let past = Position {
        offset: 4,
        ordinal: 99,
        line: 99,
    };
    assert!(opened(Format::Parquet, &Options::default(), plain(&bytes), past).is_err());
    assert!(rows(&file(0, 10, Compression::SNAPPY)).is_empty());
}

#[test]
fn a_file_that_is_no_parquet_is_refused() {
    let whole = file(5, 10, Compression::SNAPPY);
    for bytes in [b"".as_slice(), b"a,b\n", &whole[..whole.len() - 10]] {
        let refused = opened(
            Format::Parquet,
            &Options::default(),
            stream(bytes),
            Position::default(),
        );
        assert!(matches!(
            refused.map(drop),
            Err(FileError::Malformed { .. })
        ));
    }
}

#[test]
fn binary_columns_are_texts_without_annotation_too() {
    let bytes: [&[u8]; 3] = [b"abc", "\u{e9}\n".as_bytes(), b"\xff\x0a"];
    let column: ArrayRef = Arc::new(BinaryArray::from_iter_values(bytes));
    let offsets = OffsetBuffer::from_lengths([2, 0, 1]);
    let element = Arc::new(Field::new("element", DataType::Binary, true));
    let list: ArrayRef = Arc::new(ListArray::new(
        element,
        offsets.clone(),
        Arc::clone(&column),
        None,
    ));
    let pair = StructArray::from(vec![
        (Arc::new(Field::new("keys", DataType::Binary, false)), {
            let keys: ArrayRef = Arc::new(BinaryArray::from_iter_values([b"k", b"l", b"m"]));
            keys
        }),
        (
            Arc::new(Field::new("values", DataType::Binary, true)),
            Arc::clone(&column),
        ),
    ]);
    let entries = Arc::new(Field::new("entries", pair.data_type().clone(), false));
    let map: ArrayRef = Arc::new(MapArray::new(entries, offsets, pair, None, false));
    let inner = Arc::new(Field::new("inner", DataType::Binary, true));
    let group: ArrayRef = Arc::new(StructArray::from(vec![(inner, Arc::clone(&column))]));
    let fixed: ArrayRef = Arc::new(
        FixedSizeBinaryArray::try_from_iter([b"abc", b"def", b"ghi"].into_iter()).unwrap(),
    );
    let batch = RecordBatch::try_from_iter([
        ("plain", column),
        ("list", list),
        ("map", map),
        ("group", group),
        ("fixed", fixed),
    ]);
    let batch = batch.unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    let found = rows(&writer.into_inner().unwrap());
    let expected = [
        json!({"plain": "abc", "list": ["abc", "\u{e9}\n"], "map": {"k": "abc", "l": "\u{e9}\n"},
            "group": {"inner": "abc"}, "fixed": "616263"}),
        json!({"plain": "\u{e9}\n", "list": [], "map": {}, "group": {"inner": "\u{e9}\n"}, "fixed": "646566"}),
        // Bytes that are not UTF-8 are written as two digits each.
        json!({"plain": "ff0a", "list": ["ff0a"], "map": {"m": "ff0a"}, "group": {"inner": "ff0a"}, "fixed": "676869"}),
    ];
    assert_eq!(found.iter().map(Frame::value).collect::<Vec<_>>(), expected);
}

#[test]
fn a_page_with_a_wrong_checksum_is_an_error() {
    let times = [(0, 2_460_000), (5_000, 2_460_001)];
    let checksum = crc32fast::hash(&int96_bytes(&times));
    assert_eq!(rows(&int96_file(&times, Some(checksum))).len(), 2);
    let damaged = int96_file(&times, Some(checksum ^ 1));
    let error = read(&damaged).unwrap_err();
    assert!(error.contains("checksum"), "{error}");
}

/// Reads a file. Returns the numbers of all rows and of those that are too long, or the reason for
/// refusal.
fn read(bytes: &[u8]) -> Result<(u64, u64), String> {
    let text = |error: FileError| error.to_string();
    let (options, at) = (Options::default(), Position::default());
    let mut framing = opened(Format::Parquet, &options, plain(bytes), at).map_err(text)?;
    let (mut rows, mut too_long) = (0, 0);
    while let Some(row) = framing.next().map_err(text)? {
        assert_eq!(row.at.ordinal, rows);
        rows += 1;
        if let Some(error) = row.error {
            assert_eq!(error.code, "record_too_large");
            too_long += 1;
        }
    }
    Ok((rows, too_long))
}

#[test]
fn bombs_are_errors_of_the_row_or_of_the_file() {
    for Bomb {
        name,
        bytes,
        outcome,
    } in parquet_bombs()
    {
        let found = read(&bytes);
        match outcome {
            Outcome::Rows { rows, too_long } => assert_eq!(found, Ok((rows, too_long)), "{name}"),
            Outcome::Refused(reason) => {
                let error = found.expect_err(name);
                assert!(error.contains(reason), "{name}: {error}");
            }
        }
    }
}

/// Text of a row and a column, by a hash, so that texts have little in common.
fn text(row: u64, column: u64, bytes: usize) -> String {
    let mut seed = (row << 16 | column).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut text = format!("{column}-{row}-");
    while text.len() < bytes {
        seed = (seed ^ seed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        text += &format!("{seed:016x}");
    }
    text.truncate(bytes);
    text
}

/// Files of version 2: texts without a dictionary are packed as differences to the previous one.
#[test]
fn wide_files_of_texts_are_read_with_every_encoding() {
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let table = [
        (90, 120, false, zstd),
        (200, 60, false, Compression::SNAPPY),
        (200, 60, true, zstd),
    ];
    std::thread::scope(|scope| {
        for (columns, bytes, has_dictionary, codec) in table {
            scope.spawn(move || assert_wide(columns, bytes, has_dictionary, codec));
        }
    });
}

/// Writes a file of so many columns of texts, and reads it.
fn assert_wide(columns: u64, bytes: usize, has_dictionary: bool, codec: Compression) {
    const ROWS: u64 = 9_000;
    let case = format!("{columns} columns, dictionary {has_dictionary}");
    let names: Vec<_> = (0..columns).map(|column| format!("c{column}")).collect();
    let texts = (0..columns).map(|column| -> ArrayRef {
        let texts = (0..ROWS).map(|row| text(row, column, bytes));
        Arc::new(StringArray::from_iter_values(texts))
    });
    let texts = names.iter().map(String::as_str).zip(texts);
    let batch = RecordBatch::try_from_iter(texts).unwrap();
    let properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_dictionary_enabled(has_dictionary)
        .set_compression(codec)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    let file = writer.into_inner().unwrap();
    let (options, at) = (Options::default(), Position::default());
    let mut framing = opened(Format::Parquet, &options, plain(&file), at).unwrap();
    let mut rows = 0;
    while let Some(row) = framing
        .next()
        .unwrap_or_else(|error| panic!("{case}: {error}"))
    {
        if rows % 997 == 0 {
            let found: serde_json::Value = serde_json::from_slice(row.raw).unwrap();
            for (column, name) in names.iter().enumerate() {
                assert_eq!(found[name], text(rows, column as u64, bytes), "{case}");
            }
        }
        rows += 1;
    }
    assert_eq!(rows, ROWS, "{case}");
}

/// Text of a row and a column, padded.
fn long_text(row: u64, column: u64, bytes: usize) -> String {
    format!("{column} {row:0>bytes$}")
}

/// Writes a file of distinct texts, with a dictionary for each column.
fn dictionaries(columns: u64, rows: u64, bytes: usize, group_rows: usize) -> Vec<u8> {
    let names: Vec<_> = (0..columns).map(|column| format!("c{column}")).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_page_size_limit(64 << 20)
        .set_max_row_group_row_count(Some(group_rows))
        .build();
    let mut writer: Option<ArrowWriter<Vec<u8>>> = None;
    for start in (0..rows).step_by(group_rows) {
        let texts = (0..columns).map(|column| -> ArrayRef {
            let rows = start..(start + group_rows as u64).min(rows);
            let texts = rows.map(|row| long_text(row, column, bytes));
            Arc::new(StringArray::from_iter_values(texts))
        });
        let texts = names.iter().map(String::as_str).zip(texts);
        let batch = RecordBatch::try_from_iter(texts).unwrap();
        let new =
            || ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.clone())).unwrap();
        writer.get_or_insert_with(new).write(&batch).unwrap();
    }
    writer.unwrap().into_inner().unwrap()
}

#[test]
fn columns_that_exceed_the_memory_together_are_read_in_turn() {
    // 290 MiB of texts, and then some that fit.
    let (columns, rows, bytes, group_rows) = (200, 1_200, 1_500, 1_000);
    let file = dictionaries(columns, rows, bytes, group_rows);
    let mut from = Position::default();
    // From the beginning, then from the position of a record in the middle.
    for first in [0, 900] {
        let framing = opened(Format::Parquet, &Options::default(), plain(&file), from);
        let (mut framing, mut row) = (framing.unwrap(), first);
        while let Some(record) = framing.next().unwrap() {
            assert_eq!(record.at.ordinal, row);
            if row % 193 == 0 {
                let found: serde_json::Value = serde_json::from_slice(record.raw).unwrap();
                assert_eq!(found.as_object().unwrap().len() as u64, columns);
                for column in 0..columns {
                    let text = long_text(row, column, bytes);
                    assert_eq!(found[format!("c{column}")], text, "{row}");
                }
            }
            if row == 899 {
                from = record.next;
            }
            row += 1;
        }
        assert_eq!(row, rows);
    }
}

#[test]
fn a_row_that_is_too_long_keeps_its_short_columns() {
    let texts = ["a".to_owned(), "b".repeat(33 << 20), "c".to_owned()];
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("text", Arc::new(StringArray::from_iter_values(texts))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    let found = rows(&writer.into_inner().unwrap());
    assert_eq!(found[1].value(), json!({"id": 2}));
    assert_eq!(found[1].error, Some("record_too_large"));
    assert_eq!(found[2].value(), json!({"id": 3, "text": "c"}));
}

proptest! {
    #[test]
    fn a_damaged_file_is_an_error_and_no_panic(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = file(5, 3, Compression::SNAPPY);
        for (index, byte) in changes {
            let offset = index.index(bytes.len());
            bytes[offset] = byte;
        }
        if let Ok(mut framing) = opened(Format::Parquet, &Options::default(), plain(&bytes), Position::default()) {
            while let Ok(Some(_)) = framing.next() {}
        }
    }
}
