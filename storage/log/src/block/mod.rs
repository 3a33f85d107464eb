//! ClickHouse's compressed blocks, so that the bytes in the log are those that an insert sends.
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
//! `write` makes blocks of rows, `read` makes rows of blocks, and `header` is the part before the
//! data: checksum, method and sizes.

mod header;
mod read;
mod salvage;
#[cfg(test)]
mod tests;
mod write;

#[cfg(feature = "testing")]
pub(crate) use header::seal;
pub(crate) use header::{
    BLOCK_HEADER_BYTES, bytes_of, headers_crc, proven_header, proven_headers_crc,
};
pub use read::{BlockError, decompress_into_vec};
pub use salvage::{SoundBlocks, decompress_sound};
pub use write::{Compressor, store_into};
