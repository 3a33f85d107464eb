//! A file system in memory that can lose power, lie about a sync, and run out of room. For the
//! tests of this crate and of those above it; compiled only with the feature `testing`.
//!
//! | Module | Holds |
//! |---|---|
//! | `memory` | [`MemoryFs`]: the disk, and what a test does to it |
//! | `calls` | what the log calls of it |
//! | `inode` | one file: what is in the cache, and what is on the disk |
//! | `dice` | reproducible chance |
//! | [`bytes`] | frames and segments as bytes, their checksums put right |

pub mod bytes;
mod calls;
mod dice;
mod inode;
mod memory;

pub use dice::Dice;
pub use memory::{Fault, FaultKind, MemoryFs};
