//! A file system in memory that can lose power, lie about a sync, and run out of space. For the
//! tests of this crate and of those above it; compiled only with the feature `testing`.
//!
//! | Module | Holds |
//! |---|---|
//! | `memory` | [`MemoryFs`]: the disk, and the faults that a test sets |
//! | `calls` | its implementation of the file system traits |
//! | `inode` | one file: its bytes in the cache, and those on the disk |
//! | `seeded_rng` | reproducible random numbers |
//! | [`bytes`] | frames and segments as bytes, with corrected checksums |

pub mod bytes;
mod calls;
mod inode;
mod memory;
mod seeded_rng;

pub use memory::{Fault, FaultKind, MemoryFs};
pub use seeded_rng::SeededRng;
