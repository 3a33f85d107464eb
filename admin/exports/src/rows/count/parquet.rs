//! Apache Parquet: how many rows there are is at the end, in the file's metadata.
//!
//! The metadata is a Thrift structure, followed by its length (4 bytes, little endian) and `PAR1`.
//! Its first fields are the version, the schema and the number of rows; a kilobyte or so for each
//! group of rows follows.

use super::CountError;
use super::thrift::integer_of_field;
use std::collections::VecDeque;

/// The least that is kept of the end of a file, in bytes.
const TAIL_BYTES_MIN: u64 = 1 << 20;
/// Metadata is never as much as this share of its file, once that is larger than the least.
const METADATA_SHARE: u64 = 16;
/// From here on less will do, in bytes: most of the metadata are the least and the greatest values of
/// each group, ten kilobytes at most in some megabytes.
const TAIL_BYTES_LARGE: u64 = 8 << 20;
/// The share that is kept of files that are larger by far.
const METADATA_SHARE_LARGE: u64 = 1_024;
const MAGIC: &[u8; 4] = b"PAR1";
/// What follows the metadata, in bytes.
const FOOTER_BYTES: usize = 8;
/// The number of `num_rows` in `FileMetaData`.
const NUM_ROWS: i64 = 3;

/// Keeps the end of a file.
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
        let rows = integer_of_field(metadata, NUM_ROWS);
        rows.and_then(|rows| u64::try_from(rows).ok())
            .ok_or(CountError::Malformed("a Parquet file without metadata"))
    }
}
