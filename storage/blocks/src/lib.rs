//! ClickHouse's compressed blocks: the bytes that the log stores and an insert sends, and those of
//! the embedded engine's requests and responses.
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
//! `write` makes blocks of rows, `read` makes rows of blocks, `salvage` those of a damaged run, and
//! `header` is the part before the data: checksum, method and sizes.

#![forbid(unsafe_code)]

mod header;
mod read;
mod salvage;
#[cfg(test)]
mod tests;
mod write;

#[cfg(feature = "testing")]
pub use header::seal;
pub use header::{BLOCK_HEADER_BYTES, BlockHeader, bytes_of, proven_header};
pub use read::{Block, BlockError, decompress_into_vec, split_block};
pub use salvage::{SoundBlocks, decompress_sound};
pub use write::Compressor;
#[cfg(feature = "testing")]
pub use write::store_into;
