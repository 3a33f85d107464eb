//! Apache Parquet: how many rows there are is at the end, in the file's metadata.
//!
//! The metadata is a Thrift structure, followed by its length (4 bytes, little endian) and `PAR1`.
//! Its first fields are the version, the schema and the number of rows; a kilobyte or so for each
//! group of rows follows.

use super::CountError;
use super::thrift::integer_of_field;

/// The least and the most that is kept of the end of a file, in bytes.
const TAIL_BYTES: std::ops::RangeInclusive<u64> = (1 << 20)..=(32 << 20);
/// Metadata is never as much as this share of its file, once that is larger than the least.
const METADATA_SHARE: u64 = 16;
const MAGIC: &[u8; 4] = b"PAR1";
/// What follows the metadata, in bytes.
const FOOTER_BYTES: usize = 8;
/// The number of `num_rows` in `FileMetaData`.
const NUM_ROWS: i64 = 3;

/// Keeps the end of a file.
#[derive(Debug, Default)]
pub(super) struct ParquetCounter {
    bytes: u64,
    tail: Vec<u8>,
}

impl ParquetCounter {
    pub(super) fn update(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.tail.extend_from_slice(piece);
        let keep = (self.bytes / METADATA_SHARE).clamp(*TAIL_BYTES.start(), *TAIL_BYTES.end());
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        // Twice as much, so that each byte is moved once at most on average.
        if self.tail.len() > keep.saturating_mul(2) {
            self.tail.drain(..self.tail.len() - keep);
        }
    }

    pub(super) fn finish(self) -> Result<u64, CountError> {
        let tail = self.tail.as_slice();
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
