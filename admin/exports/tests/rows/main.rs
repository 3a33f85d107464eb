//! Tests of reading rows for exports, against the real engine.
//!
//! Every test uses databases of its own on the engine that the binary shares.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

millrace_embedded::engine_process!();

mod counts;
mod error_codes;
mod fixture;
mod forms;
mod harmless;
mod hostile;
mod hostile_texts;
mod persons;
mod windows;
