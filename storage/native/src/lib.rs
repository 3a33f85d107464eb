//! Rows of `events` as one sorted block of ClickHouse's
//! [Native](https://clickhouse.com/docs/interfaces/formats/Native) format.
//!
//! The server makes columns of the rows of an insert, sorts them by the table's key, and merges
//! those of one key. A block is columns already. If it is sorted, the server does not sort it, and
//! if no two of its rows have one key, it need not look for them.
//!
//! A block, as an HTTP insert has it whose client names no revision. Numbers in front of what they
//! count are LEB128, others little-endian, and a text follows its length:
//!
//! | Field | Form |
//! |---|---|
//! | numbers of columns and rows | LEB128 each |
//! | of each column: name, type | texts |
//! | … and its values, in the order of the block | as in RowBinary, but for event names |
//!
//! Event names are `LowCardinality(String)`. Their column has a dictionary of its own:
//!
//! | Field | Form |
//! |---|---|
//! | version of the keys, 1 | 8 bytes |
//! | bytes of an index (0: one, 1: two), with the flags `0x600`: keys follow, of this block | 8 bytes |
//! | number of keys | 8 bytes |
//! | keys | texts |
//! | number of rows | 8 bytes |
//! | index of each row's key | 1 or 2 bytes each |
//!
//! Property columns follow those of the table. Texts are like other texts, or like event names with
//! a dictionary whose first key is empty. Others are `Nullable`: a byte for each row, 1 of null,
//! before the values.
//!
//! | Module | Holds |
//! |---|---|
//! | `block` | [`NativeBlock`]: the block, piece by piece |
//! | `column`, `columns` | the columns of an insert target, and their values |
//! | `cells` | reader of RowBinary |
//! | `dictionary` | the names of a block |
//! | `property` | [`PropertyPlan`]: property columns, and their values in JSON |
//! | `sort`, `city_hash` | the table's sorting key, and the order of the rows by it |
//! | `error` | [`NativeError`]: why rows are not made a block |
//! | `testing` | blocks read back, with the feature `testing` only |
//!
//! Constraints:
//! - No byte of a row panics. Bytes that are no rows of the columns are an error, and the caller
//!   sends them as they are.
//! - Two rows that the table would merge have equal keys here. A wrong order only costs the server
//!   the sorting; a wrong answer to [`NativeBlock::has_equal_keys`] would store rows twice.

#![forbid(unsafe_code)]

mod block;
mod cells;
mod city_hash;
mod column;
mod columns;
mod dictionary;
mod error;
mod property;
mod sort;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use block::NativeBlock;
pub use error::NativeError;
pub use property::PropertyPlan;

/// Most rows of a block.
pub const BLOCK_ROWS_MAX: usize = 1_000_000;
/// Most bytes of the rows of a block.
pub const BLOCK_BYTES_MAX: usize = 128 << 20;
/// Bytes of a piece of a block, unless one cell is larger: few enough that they are still in the
/// processor's cache when they are compressed or sent.
pub const PIECE_BYTES: usize = 256 << 10;
