//! The fuzz targets on stable: every input of the corpus, and changes to them by a fixed seed.
//!
//! `MILLRACE_FUZZ_RUNS` is how many changed inputs each target gets, and `MILLRACE_FUZZ_TIME` has
//! core time judged as of an optimised build; coverage-guided runs are `make fuzz`'s.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

mod climb;
mod short;
