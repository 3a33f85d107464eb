//! Tests of the catalog on real databases.
//!
//! Rules: every test of behaviour runs on SQLite and on PostgreSQL, through `on_both!`; one
//! database per test; time is a `TestClock`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

#[macro_use(on_both)]
extern crate millrace_catalog;

mod fleet;
mod ingest_nodes;
mod node_endpoints;
mod open;
mod schema;
