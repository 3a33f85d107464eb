//! Counts rows of Apache Parquet, whose number is in the metadata at the end of the file.
//!
//! The metadata is a Thrift structure, followed by its length (4 bytes, little endian) and `PAR1`.
//! Its first fields are the version, the schema and the number of rows; a kilobyte or so for each
//! group of rows follows.

use super::error::CountError;
use millrace_rows::thrift::Thrift;
use std::collections::VecDeque;

/// Bytes of a file's end that are kept at least.
const TAIL_BYTES_MIN: u64 = 1 << 20;
/// Share of a larger file that is kept: its metadata is always smaller.
const METADATA_SHARE: u64 = 16;
/// Bytes from which on a smaller share is kept: most of the metadata are minima and maxima of each
/// group, ten kilobytes at most for some megabytes.
const TAIL_BYTES_LARGE: u64 = 8 << 20;
/// Share of a much larger file that is kept.
const METADATA_SHARE_LARGE: u64 = 1_024;
const MAGIC: &[u8; 4] = b"PAR1";
/// Bytes behind the metadata.
const FOOTER_BYTES: usize = 8;
/// Field number of `num_rows` in `FileMetaData`.
const NUM_ROWS: i64 = 3;

/// Counter that keeps the end of a file.
#[derive(Debug, Default)]
pub(super) struct ParquetCounter {
    bytes: u64,
    tail: VecDeque<u8>,
}

impl ParquetCounter {
    pub(super) fn update(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        let large = TAIL_BYTES_LARGE.max(self.bytes / METADATA_SHARE_LARGE);
        let keep = (self.bytes / METADATA_SHARE).clamp(TAIL_BYTES_MIN, large);
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        let piece = piece
            .get(piece.len().saturating_sub(keep)..)
            .unwrap_or_default();
        let gone = (self.tail.len() + piece.len()).saturating_sub(keep);
        self.tail.drain(..gone);
        self.tail.extend(piece);
    }

    pub(super) fn finish(mut self) -> Result<u64, CountError> {
        let tail = &*self.tail.make_contiguous();
        let (metadata, footer) = tail
            .split_last_chunk::<FOOTER_BYTES>()
            .ok_or(CountError::Cut)?;
        let (length, magic) = footer.split_first_chunk::<4>().ok_or(CountError::Cut)?;
        if magic != MAGIC {
            return Err(CountError::Cut);
        }
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let start = metadata.len().checked_sub(length);
        let metadata =
            start
                .and_then(|start| metadata.get(start..))
                .ok_or(CountError::Malformed(
                    "a Parquet file's metadata is too long",
                ))?;
        let rows = Thrift::new(metadata).number_of_field(NUM_ROWS);
        rows.and_then(|rows| u64::try_from(rows).ok())
            .ok_or(CountError::Malformed("a Parquet file without metadata"))
    }
}
