//! Rows of Parquet, told apart and mapped.

use crate::support::{Frame, frames, frames_from, opened, plain, stream, try_map};
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use millrace_sources::{FileError, Format, Options, Position};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;

const AT_MICROS: i64 = 1_697_380_200_123_456;

/// A file of so many rows in groups of so many.
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
fn rows_are_objects_of_their_types_whatever_the_compression() {
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
fn rows_are_the_same_from_wherever_they_are_read() {
    let bytes = file(25, 10, Compression::SNAPPY);
    let whole = rows(&bytes);
    assert_eq!(whole.len(), 25);
    assert_eq!(whole[9].next, whole[10].at);
    assert_eq!((whole[10].at.offset, whole[10].at.ordinal), (1, 10));
    for (place, row) in whole.iter().enumerate() {
        let from = |at| frames_from(Format::Parquet, &Options::default(), &bytes, at);
        assert_eq!(from(row.at), whole[place..]);
        assert_eq!(from(row.next), whole[place + 1..]);
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
fn what_is_no_parquet_is_said_to_be_none() {
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

proptest! {
    #[test]
    fn damaged_files_are_errors_and_no_panics(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = file(5, 3, Compression::SNAPPY);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(mut framing) = opened(Format::Parquet, &Options::default(), plain(&bytes), Position::default()) {
            while let Ok(Some(_)) = framing.next() {}
        }
    }
}
