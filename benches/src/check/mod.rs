//! Instruction counts beside the ones that are committed.
//!
//! Times on shared machines mean nothing, counts do: valgrind's callgrind runs the same
//! instructions whatever the neighbours do. What it does not see: the kernel, caches, and AVX-512,
//! which it lacks, so the portable path of the parser's index is what is counted.
//!
//! Hostile requests have a bound beside: so much for each kB sent, or for each decoded byte, whatever was committed.
//!
//! Each case runs twice in a process of its own, with different numbers of rounds. The difference
//! is what the rounds cost, without start, warm-up and end.

mod callgrind;
mod case;
mod committed;
mod table;

pub use callgrind::{Count, count};
pub use case::{Case, Share};
pub use committed::Committed;
pub use table::{Line, PERCENT_MAX, PERCENT_MAX_BOUNDED, table};
