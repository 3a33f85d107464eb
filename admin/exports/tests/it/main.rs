//! Exports against real parts: an embedded ClickHouse, SQLite and PostgreSQL catalogs, real
//! servers as destinations.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

millrace_embedded::engine_process!();

mod engine;
