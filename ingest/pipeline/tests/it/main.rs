//! The pipeline against a real log and the real engine.
//!
//! Tests that kill the engine start one of their own; the others share one and use databases of
//! their own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

millrace_embedded::engine_process!();

mod commit;
mod flush_barrier;
mod import_count;
mod ship;
mod ship_crashes;
mod ship_faults;
mod ship_fixture;
mod ship_native;
