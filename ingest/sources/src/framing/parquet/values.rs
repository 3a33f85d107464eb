//! Checks the values of an unpacked page that the library does not check enough.
//!
//! 96-bit times (a Julian day and nanoseconds) are clamped before they become microseconds: beyond
//! their range they would wrap into years that an event may have. Delta-packed lengths of texts
//! contain their own count, which may differ from the page's.

use super::columns::{Leaf, Levels};
use super::lengths::{lengths_end, texts_bytes};
use super::page::refused;
use bytes::Bytes;
use parquet::basic::{Encoding, Type};
use parquet::column::page::Page;
use parquet::errors::Result;

const INT96_BYTES: usize = 12;
/// Julian number of the last day of the year 9999.
const DAY_MAX: u32 = 5_373_484;
/// Julian number of a day in the year 11715, which no event may have.
const DAY_BEYOND: u32 = 6_000_000;
const NANOS_PER_DAY: u64 = 86_400_000_000_000;

/// A page that can be decoded.
pub(super) struct CheckedPage {
    /// The page, with its times clamped.
    pub(super) page: Page,
    /// Bytes of the texts of a batch that the library builds of prefixes and suffixes.
    pub(super) copied_bytes: u64,
}

/// Checks the values of a page, of which a batch has at most `batch_values`.
pub(super) fn check(mut page: Page, leaf: &Leaf, batch_values: u64) -> Result<CheckedPage> {
    let (buffer, start, encoding, count) = match &mut page {
        Page::DictionaryPage {
            buf, num_values, ..
        } => (buf, Some(0), Encoding::PLAIN, *num_values),
        Page::DataPage {
            buf,
            num_values,
            encoding,
            def_level_encoding,
            rep_level_encoding,
            ..
        } => {
            let are_packed = [*rep_level_encoding, *def_level_encoding];
            let start = values_start(buf, leaf.levels, are_packed, *num_values);
            (buf, start, *encoding, *num_values)
        }
        Page::DataPageV2 {
            buf,
            num_values,
            encoding,
            def_levels_byte_len,
            rep_levels_byte_len,
            ..
        } => {
            let start = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
            (buf, usize::try_from(start).ok(), *encoding, *num_values)
        }
    };
    let start = start.filter(|start| *start <= buffer.len());
    let start = start.ok_or_else(|| refused("a page of it is damaged"))?;
    if leaf.physical == Type::INT96 && encoding == Encoding::PLAIN {
        clamp_times(buffer, start);
    }
    let lengths = buffer.get(start..).unwrap_or_default();
    let count = u64::from(count);
    let end = |lengths| {
        let end = lengths_end(lengths, count);
        end.ok_or_else(|| refused("a page of it has more lengths than values"))
    };
    let mut copied_bytes = 0;
    if matches!(
        encoding,
        Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY
    ) {
        let rest = lengths.get(end(lengths)?..).unwrap_or_default();
        if encoding == Encoding::DELTA_BYTE_ARRAY {
            end(rest)?;
            let bytes = texts_bytes(lengths, rest, count, batch_values);
            copied_bytes = bytes.ok_or_else(|| refused("a page of it is damaged"))?;
        }
    }
    Ok(CheckedPage { page, copied_bytes })
}

/// Offset of the values in a page of the first version: after the levels, each with its length
/// before it, or bit-packed in the deprecated encoding.
fn values_start(
    page: &[u8],
    levels: Levels,
    encodings: [Encoding; 2],
    count: u32,
) -> Option<usize> {
    let mut at = 0_usize;
    for (level, encoding) in [levels.repetition, levels.definition]
        .into_iter()
        .zip(encodings)
    {
        if level == 0 {
            continue;
        }
        let length = if encoding == Encoding::RLE {
            let length = page.get(at..)?.first_chunk()?;
            at += 4;
            u64::from(u32::from_le_bytes(*length))
        } else {
            let bits = u64::from(16 - level.unsigned_abs().leading_zeros());
            (u64::from(count) * bits).div_ceil(8)
        };
        at = at.checked_add(usize::try_from(length).ok()?)?;
    }
    Some(at)
}

/// Replaces times that are out of range by one that is invalid, but does not wrap.
fn clamp_times(page: &mut Bytes, start: usize) {
    let is_fine = |time: &[u8]| {
        let (Some(nanos), Some(day)) = (time.first_chunk(), time.last_chunk()) else {
            return true;
        };
        u64::from_le_bytes(*nanos) < NANOS_PER_DAY && u32::from_le_bytes(*day) <= DAY_MAX
    };
    let values = page.get(start..).unwrap_or_default();
    if values.chunks_exact(INT96_BYTES).all(is_fine) {
        return;
    }
    let mut clamped = page.to_vec();
    let values = clamped.get_mut(start..).unwrap_or_default();
    for time in values
        .chunks_exact_mut(INT96_BYTES)
        .filter(|time| !is_fine(time))
    {
        time.fill(0);
        if let Some(day) = time.last_chunk_mut() {
            *day = DAY_BEYOND.to_le_bytes();
        }
    }
    *page = clamped.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(nanos: u64, day: u32) -> Vec<u8> {
        [&nanos.to_le_bytes()[..], &day.to_le_bytes()].concat()
    }

    #[test]
    fn times_out_of_range_are_clamped_and_others_unchanged() {
        let beyond = time(0, DAY_BEYOND);
        let table = [
            (time(0, 2_440_588), time(0, 2_440_588)),
            (
                time(NANOS_PER_DAY - 1, DAY_MAX),
                time(NANOS_PER_DAY - 1, DAY_MAX),
            ),
            (time(5, 0), time(5, 0)),
            (time(0, DAY_MAX + 1), beyond.clone()),
            (time(NANOS_PER_DAY, 2_440_588), beyond.clone()),
            (time(u64::MAX, 2_440_588), beyond.clone()),
            (time(0, u32::MAX), beyond),
        ];
        for (given, expected) in table {
            let mut page = Bytes::from([&b"xy"[..], &given, &given].concat());
            clamp_times(&mut page, 2);
            assert_eq!(page, [&b"xy"[..], &expected, &expected].concat());
        }
    }
}
