//! ClickHouse's compressed blocks, so that what lies in the log is what an insert sends.
//!
//! A block, as `decompress=1` reads it, integers little-endian:
//!
//! | bytes | field |
//! |---|---|
//! | 16 | CityHash128 (the 1.0.2 variant ClickHouse froze) of all that follows, lower half first |
//! | 1 | method, `0x82` for LZ4, `0x02` for data as it is |
//! | 4 | bytes of method, sizes and data |
//! | 4 | bytes of the data once decompressed |
//! | … | one raw LZ4 block, or the data |
//!
//! `write` makes blocks of rows, `read` makes rows of blocks, and `head` is what stands before the
//! data: method, sizes and checksum.

mod head;
mod read;
mod salvage;
#[cfg(test)]
mod tests;
mod write;

#[cfg(feature = "testing")]
pub(crate) use head::seal;
pub(crate) use head::{HEAD_BYTES, bytes_of, heads_crc, proven_head, proven_heads_crc};
pub use read::{BlockError, decompress_into_vec};
pub use salvage::decompress_sound;
pub use write::{Compressor, store_into};
