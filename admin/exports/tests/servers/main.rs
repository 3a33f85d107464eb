//! Tests of exports to tables and to HTTP servers.
//!
//! Rules: PostgreSQL is real, in a database for each test, and reached over TCP through a gateway
//! that can inject faults; ClickHouse is the embedded one; servers of vendors that cannot run here
//! are fakes of what their documents say, in `fakes`. Nothing is timed: where time matters, limits
//! are either far or already over.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

millrace_embedded::engine_process!();

mod clickhouse;
mod dialler;
mod fakes;
mod http;
mod rows;
mod tables;
mod wire;
