//! Parquet pages that claim more than they contain, or contain more than they claim; and pages of
//! times.

use super::bomb::{Bomb, CLAIM, MIB, Outcome, bomb};
use super::wire::{DataPage, SimpleFile, ThriftWriter, number};
use flate2::write::GzEncoder;
use std::io::{Read, Write};

/// A file of one number, or of other bytes in its place.
fn numbers(codec: i64, unpacked_bytes: i64, bytes: Vec<u8>) -> SimpleFile {
    SimpleFile {
        columns: 1,
        physical: number::INT32,
        repetition: 0,
        codec,
        rows: 1,
        dictionary: None,
        page: DataPage {
            values: 1,
            encoding: number::PLAIN,
            unpacked_bytes: Some(unpacked_bytes),
            checksum: None,
            bytes,
        },
    }
}

/// A file of one text, or of other bytes in its place.
fn texts(encoding: i64, bytes: Vec<u8>) -> SimpleFile {
    SimpleFile {
        physical: number::BYTE_ARRAY,
        page: DataPage {
            values: 1,
            encoding,
            unpacked_bytes: None,
            checksum: None,
            bytes,
        },
        ..numbers(0, 0, Vec::new())
    }
}

/// A row that is a list of billions: one value of a dictionary, repeated.
fn endless_list() -> SimpleFile {
    // Levels: one for the first, one for all others.
    let runs = |levels: [u8; 2]| {
        let mut wire = ThriftWriter::default();
        for (level, count) in levels.into_iter().zip([1, CLAIM as u64 - 1]) {
            wire = wire.varint(count << 1);
            wire.0.push(level);
        }
        [&(wire.0.len() as u32).to_le_bytes()[..], &wire.0].concat()
    };
    let indices = [
        &[1][..],
        &ThriftWriter::default().varint((CLAIM as u64) << 1).0,
        &[0],
    ]
    .concat();
    SimpleFile {
        repetition: 2,
        dictionary: Some((1, vec![7, 0, 0, 0])),
        page: DataPage {
            values: CLAIM,
            encoding: number::DICTIONARY,
            unpacked_bytes: None,
            checksum: None,
            bytes: [runs([0, 1]), runs([1, 1]), indices].concat(),
        },
        ..numbers(0, 0, Vec::new())
    }
}

/// A row of columns with dictionaries that exceed the memory budget together.
fn dictionaries() -> SimpleFile {
    const VALUES: usize = 60_000;
    SimpleFile {
        columns: 300,
        dictionary: Some((VALUES as i64, vec![0; 4 * VALUES])),
        // Bits of an index, number of repeats, the index.
        ..texts(number::DICTIONARY, vec![16, 2, 0, 0])
    }
}

pub(super) fn pages() -> Vec<Bomb> {
    let dictionary = SimpleFile {
        dictionary: Some((CLAIM, vec![0; 4])),
        ..texts(number::DICTIONARY, vec![1, 2, 0])
    };
    let lengths = ThriftWriter(vec![0x80, 1, 4])
        .varint(CLAIM as u64)
        .varint(0)
        .0;
    let prefixes = [&[0x80, 1, 4, 1, 0][..], &lengths].concat();
    let one_row = Outcome::Rows {
        rows: 1,
        too_long: 0,
    };
    let lie = "larger than its header says";
    let claim = "of which at most 128";
    let more = "more lengths than values";
    [
        ("values", endless_list(), "too much memory"),
        ("dictionary-values", dictionary, "more values than bytes"),
        (
            "zstd-claim",
            numbers(number::ZSTD, CLAIM, vec![0; 9]),
            claim,
        ),
        (
            "snappy-claim",
            numbers(number::SNAPPY, CLAIM, vec![0; 9]),
            claim,
        ),
        (
            "gzip-lie",
            numbers(number::GZIP, 4, gzipped(512 * MIB)),
            lie,
        ),
        (
            "brotli-lie",
            numbers(number::BROTLI, 4, brotlied(512 * MIB)),
            lie,
        ),
        ("lengths", texts(number::DELTA_LENGTH, lengths), more),
        ("suffixes", texts(number::DELTA_BYTE_ARRAY, prefixes), more),
    ]
    .map(|(name, file, reason)| bomb(name, file.file(), Outcome::Refused(reason)))
    .into_iter()
    .chain([bomb("dictionaries", dictionaries().file(), one_row)])
    .collect()
}

fn gzipped(bytes: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let zeros = vec![0; MIB];
    for _ in 0..bytes / MIB {
        encoder.write_all(&zeros).unwrap();
    }
    encoder.finish().unwrap()
}

fn brotlied(bytes: usize) -> Vec<u8> {
    let zeros = std::io::repeat(0).take(bytes as u64);
    let mut packed = Vec::new();
    brotli::CompressorReader::new(zeros, MIB, 1, 22)
        .read_to_end(&mut packed)
        .unwrap();
    packed
}

/// Makes a file of one column of 96-bit times, given as nanoseconds of the day and Julian day; its
/// page has the given checksum.
#[must_use]
pub fn int96_file(times: &[(u64, u32)], checksum: Option<u32>) -> Vec<u8> {
    let column = SimpleFile {
        columns: 1,
        physical: number::INT96,
        repetition: 0,
        codec: 0,
        rows: times.len() as i64,
        dictionary: None,
        page: DataPage {
            values: times.len() as i64,
            encoding: number::PLAIN,
            unpacked_bytes: None,
            checksum: checksum.map(|checksum| i64::from(checksum.cast_signed())),
            bytes: int96_bytes(times),
        },
    };
    column.file()
}

/// Bytes of the page in an [`int96_file`].
#[must_use]
pub fn int96_bytes(times: &[(u64, u32)]) -> Vec<u8> {
    let bytes = times.iter().flat_map(|(nanos, day)| {
        let nanos = nanos.to_le_bytes();
        nanos.into_iter().chain(day.to_le_bytes())
    });
    bytes.collect()
}
