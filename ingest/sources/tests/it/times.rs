//! Times from numbers at the ends of their ranges: no number becomes another time.

use crate::support::{frames, try_map};
use arrow_array::{
    ArrayRef, Date32Array, RecordBatch, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray,
};
use millrace_sources::testing::int96_file;
use millrace_sources::{Format, Options, RecordError};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns the time of a record's only event, or the code of its error.
fn time(format: Format, options: &Options, record: &Value) -> Result<String, &'static str> {
    let mapped = try_map(format, options, record.to_string().as_bytes());
    let text =
        |events: crate::support::Mapped| events.one()["timestamp"].as_str().unwrap().to_owned();
    mapped.map(text).map_err(|error: RecordError| error.code)
}

/// Records with the number in each field of each source that takes times as numbers.
fn records(number: &Value) -> Vec<(Format, Value)> {
    let text = number
        .as_str()
        .map_or_else(|| number.to_string(), str::to_owned);
    vec![
        (
            Format::Mixpanel,
            json!({"event": "e", "properties": {"time": number, "distinct_id": "d"}}),
        ),
        (
            Format::Segment,
            json!({"type": "page", "userId": "u", "timestamp": number}),
        ),
        (
            Format::Segment,
            json!({"type": "page", "userId": "u", "originalTimestamp": number, "sentAt": 0, "receivedAt": 0}),
        ),
        (
            Format::Rudderstack,
            json!({"type": "page", "userId": "u", "receivedAt": number}),
        ),
        (
            Format::GoogleAnalytics,
            json!({"event_name": "e", "user_pseudo_id": "u", "event_timestamp": text}),
        ),
        (
            Format::Csv,
            json!({"event": "e", "distinct_id": "d", "timestamp": text}),
        ),
        (
            Format::Parquet,
            json!({"event": "e", "distinct_id": "d", "timestamp": number}),
        ),
        (
            Format::Clickhouse,
            json!({"event": "e", "distinct_id": "d", "timestamp": text}),
        ),
    ]
}

#[test]
fn a_number_is_its_time_or_invalid() {
    let table = [
        (json!(0), Some("1970-01-01T00:00:00Z")),
        (json!(10_000_000_000_u64), Some("2286-11-20T17:46:40Z")),
        (
            json!(10_000_000_001_u64),
            Some("1970-04-26T17:46:40.001000Z"),
        ),
        (
            json!(99_999_999_999_999_u64),
            Some("5138-11-16T09:46:39.999000Z"),
        ),
        (json!(100_000_000_000_000_u64), Some("1973-03-03T09:46:40Z")),
        (
            json!(99_999_999_999_999_999_u64),
            Some("5138-11-16T09:46:39.999999Z"),
        ),
        (
            json!(100_000_000_000_000_000_u64),
            Some("1973-03-03T09:46:40Z"),
        ),
        (json!(i64::MAX), Some("2262-04-11T23:47:16.854775Z")),
        (
            json!(i64::MAX as u64 + 1),
            Some("2262-04-11T23:47:16.854775Z"),
        ),
        (
            json!(9_999_999_999_999_999_999_u64),
            Some("2286-11-20T17:46:39.999999Z"),
        ),
        (json!(10_000_000_000_000_000_000_u64), None),
        (json!(u64::MAX), None),
        (json!(-1), None),
        (json!(i64::MIN), None),
        (json!(1e300), None),
        (json!("99999999999999999999999999999999"), None),
    ];
    for (number, expected) in table {
        for (format, record) in records(&number) {
            let found = time(format, &Options::default(), &record);
            let expected = expected.map(str::to_owned).ok_or("invalid_timestamp");
            assert_eq!(found, expected, "{format:?} {record}");
        }
    }
}

#[test]
fn a_time_that_an_offset_moves_out_of_range_is_invalid() {
    let last = json!("9999-12-31T23:59:59Z");
    let table = [
        (1, last.clone()),
        (i64::MAX, last.clone()),
        (i64::MIN, last),
        (-1, json!("1970-01-01T00:00:00Z")),
        (i64::MAX, json!(0)),
    ];
    for (time_offset_seconds, timestamp) in table {
        let options = Options {
            time_offset_seconds,
            ..Options::default()
        };
        let record = json!({"event": "e", "distinct_id": "d", "timestamp": timestamp});
        let found = time(Format::Parquet, &options, &record);
        assert_eq!(found, Err("invalid_timestamp"), "{time_offset_seconds}");
    }
}

/// Returns the times that the mapping reads from a file's rows.
fn times_of(file: &[u8]) -> Vec<Result<String, &'static str>> {
    let options = Options {
        columns: millrace_sources::Columns {
            timestamp: "a".to_owned(),
            event_name: Some("e".to_owned()),
            ..millrace_sources::Columns::default()
        },
        ..Options::default()
    };
    let rows = frames(Format::Parquet, &options, file);
    let row = |row: &crate::support::Frame| {
        let mut record = row.value();
        record["distinct_id"] = json!("d");
        time(Format::Parquet, &options, &record)
    };
    rows.iter().map(row).collect()
}

const NONE: Result<&str, &str> = Err("invalid_timestamp");
const ZERO: Result<&str, &str> = Ok("1970-01-01T00:00:00Z");

fn assert_times(file: &[u8], expected: &[Result<&str, &'static str>]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|time| time.map(str::to_owned))
        .collect();
    assert_eq!(times_of(file), expected);
}

#[test]
fn times_of_96_bits_are_checked_before_they_are_converted() {
    let nanos_per_day = 86_400_000_000_000;
    let table = [
        ((0, 2_440_588), ZERO),
        // After 2262, where nanoseconds end.
        ((1_000, 2_561_118), Ok("2300-01-01T00:00:00.000001Z")),
        ((0, 5_373_485), NONE),
        ((0, 2_440_587), NONE),
        ((nanos_per_day, 2_440_588), NONE),
        ((u64::MAX, 2_440_588), NONE),
        // Nanoseconds would wrap into 1970, and microseconds.
        ((0, 2_440_588 + 213_504), Ok("2554-07-22T00:00:00Z")),
        ((0, 2_440_588 + 213_503_983), NONE),
        ((0, u32::MAX), NONE),
    ];
    let (times, expected): (Vec<_>, Vec<_>) = table.into_iter().unzip();
    assert_times(&int96_file(&times, None), &expected);
}

/// Writes a file with one column of times.
fn timestamp_file(times: ArrayRef) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter([("a", times)]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn timestamps_out_of_range_are_invalid() {
    // The last second of the year 9999.
    let last_s = 253_402_300_799_i64;
    let millis = [
        (0, ZERO),
        (i64::MAX / 1_000_000, Ok("2262-04-11T23:47:16.854000Z")),
        (last_s * 1_000 + 1_000, NONE),
        (-1, NONE),
        // Overflow in microseconds or nanoseconds.
        (i64::MAX / 1_000 + 1, NONE),
        (i64::MAX, NONE),
        (i64::MIN, NONE),
    ];
    let micros = [
        (0, ZERO),
        (i64::MAX / 1_000, Ok("2262-04-11T23:47:16.854775Z")),
        ((last_s + 1) * 1_000_000, NONE),
        (-1, NONE),
        (i64::MAX / 1_000 + 1, Ok("2262-04-11T23:47:16.854776Z")),
        (i64::MAX, NONE),
        (i64::MIN, NONE),
    ];
    let nanos = [
        (0, ZERO),
        (i64::MAX, Ok("2262-04-11T23:47:16.854775Z")),
        // A microsecond, which is our resolution.
        (-1_000, NONE),
        (i64::MIN, NONE),
    ];
    for zone in [None, Some("UTC")] {
        let (times, expected): (Vec<_>, Vec<_>) = millis.into_iter().unzip();
        let times = TimestampMillisecondArray::from(times).with_timezone_opt(zone);
        assert_times(&timestamp_file(Arc::new(times)), &expected);
        let (times, expected): (Vec<_>, Vec<_>) = micros.into_iter().unzip();
        let times = TimestampMicrosecondArray::from(times).with_timezone_opt(zone);
        assert_times(&timestamp_file(Arc::new(times)), &expected);
        let (times, expected): (Vec<_>, Vec<_>) = nanos.into_iter().unzip();
        let times = TimestampNanosecondArray::from(times).with_timezone_opt(zone);
        assert_times(&timestamp_file(Arc::new(times)), &expected);
    }
}

#[test]
fn a_time_out_of_the_calendar_is_kept_as_text_and_its_row_is_read() {
    let zoned = TimestampMillisecondArray::from(vec![i64::MAX, 0]).with_timezone("UTC");
    let columns: [(&str, ArrayRef); 3] = [
        ("zoned", Arc::new(zoned)),
        (
            "plain",
            Arc::new(TimestampMicrosecondArray::from(vec![i64::MIN, 0])),
        ),
        ("day", Arc::new(Date32Array::from(vec![i32::MAX, 0]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    let bytes = writer.into_inner().unwrap();
    let found = frames(Format::Parquet, &Options::default(), &bytes);
    let found: Vec<Value> = found.iter().map(crate::support::Frame::value).collect();
    let expected = [
        json!({"zoned": "9223372036854775807 ms", "plain": "-9223372036854775808 us", "day": "2147483647 days"}),
        json!({"zoned": "1970-01-01T00:00:00Z", "plain": "1970-01-01T00:00:00", "day": "1970-01-01"}),
    ];
    assert_eq!(found, expected);
}
