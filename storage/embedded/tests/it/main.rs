//! Integration tests of the embedded engine over its HTTP interface and the native protocol.
//!
//! Every test that needs no crash runs against the engine that the binary shares, or against the
//! server named by `MILLRACE_TEST_CLICKHOUSE_URL`, in a database of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

mod client;
mod concurrency;
mod crash;
mod gate;
mod inserts;
mod interface;
mod isolation;
mod listener;
mod native;
mod privileges;
mod python_client;
mod rust_client;
mod supervision;
mod users;

millrace_embedded::engine_process!();
