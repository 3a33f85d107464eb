//! Generates files in the tools' formats by a seed: the same seed makes the same file.

use super::records::{self, SeededRng};
use crate::Format;
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use millrace_rows::Micros;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::io::{self, Write};
use std::sync::Arc;

/// 2023-10-01T00:00:00Z.
const START: Micros = Micros(1_696_118_400_000_000);
/// Time between one event and the next.
const STEP_MICROS: i64 = 250_000;
const ROW_GROUP_ROWS: u64 = 10_000;

/// Writes a file of events, each of about 1 kB, a quarter of a second apart from 2023-10-01 on.
///
/// # Errors
/// I/O errors of the writer.
pub fn generate(format: Format, events: u64, seed: u64, mut out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Parquet => return parquet(events, seed, &mut out),
        Format::Csv => out.write_all(records::CSV_HEADER.as_bytes())?,
        _ => {}
    }
    let mut line = String::new();
    for number in 0..events {
        line.clear();
        records::append(format, seed, number, at(number), &mut line);
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// Makes lines of events, spread evenly over a span from a time on; `first` is the number of the
/// first.
#[must_use]
pub fn lines(
    format: Format,
    seed: u64,
    first: u64,
    events: u64,
    from: Micros,
    span_micros: i64,
) -> Vec<u8> {
    let mut text = String::new();
    for number in 0..events {
        let share = i128::from(span_micros) * i128::from(number) / i128::from(events.max(1));
        let at = from.plus_micros(i64::try_from(share).unwrap_or_default());
        records::append(format, seed, first + number, at, &mut text);
        text.push('\n');
    }
    text.into_bytes()
}

fn at(number: u64) -> Micros {
    START.plus_micros(STEP_MICROS * number.cast_signed())
}

fn parquet(events: u64, seed: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = None;
    // A file without rows still has columns.
    let mut first = 0;
    loop {
        let rows = ROW_GROUP_ROWS.min(events - first);
        let batch = batch(seed, first..first + rows);
        if writer.is_none() {
            let properties = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                .set_max_row_group_row_count(Some(ROW_GROUP_ROWS as usize))
                .build();
            // The writer needs to own its output.
            let buffer: Vec<u8> = Vec::new();
            writer = Some(
                ArrowWriter::try_new(buffer, batch.schema(), Some(properties))
                    .map_err(io::Error::other)?,
            );
        }
        let Some(open) = &mut writer else {
            return Ok(());
        };
        open.write(&batch).map_err(io::Error::other)?;
        first += rows;
        if first >= events {
            break;
        }
    }
    let Some(writer) = writer else {
        return Ok(());
    };
    out.write_all(&writer.into_inner().map_err(io::Error::other)?)
}

fn batch(seed: u64, numbers: std::ops::Range<u64>) -> RecordBatch {
    let rng: Vec<SeededRng> = numbers
        .clone()
        .map(|number| SeededRng::new(seed, number))
        .collect();
    let columns: [(&str, ArrayRef); 6] = [
        (
            "event",
            Arc::new(StringArray::from_iter_values(
                rng.iter().map(SeededRng::event),
            )),
        ),
        (
            "distinct_id",
            Arc::new(StringArray::from_iter_values(
                rng.iter().map(SeededRng::user),
            )),
        ),
        (
            "timestamp",
            Arc::new(
                TimestampMicrosecondArray::from_iter_values(
                    numbers.clone().map(|number| at(number).0),
                )
                .with_timezone("UTC"),
            ),
        ),
        (
            "uuid",
            Arc::new(StringArray::from_iter_values(
                rng.iter().map(|rng| rng.uuid().to_string()),
            )),
        ),
        (
            "price",
            Arc::new(Float64Array::from_iter_values(
                rng.iter().map(SeededRng::price),
            )),
        ),
        (
            "number",
            Arc::new(Int64Array::from_iter_values(numbers.map(u64::cast_signed))),
        ),
    ];
    RecordBatch::try_from_iter(columns).expect("the columns are of one length")
}
