//! Comparison of instruction counts with the committed ones.
//!
//! Times on shared machines mean nothing, counts do: valgrind's callgrind runs the same
//! instructions whatever else the machine does. It does not see the kernel and caches. It lacks
//! AVX-512, so the portable path of the parser's index is counted.
//!
//! Hostile requests have a bound besides: instructions for each kB sent, or for each decoded byte,
//! whatever was committed.
//!
//! Each case runs twice in a process of its own, with different numbers of rounds. The difference
//! is the cost of the rounds, without start, warm-up and end.

mod callgrind;
mod case;
mod committed;
mod table;

pub use callgrind::{Count, count};
pub use case::{Case, CostBasis};
pub use committed::Committed;
pub use table::{Line, PERCENT_MAX, PERCENT_MAX_BOUNDED, table};
