//! Mapping of records to events: examples of each rule of each format, and property tests.
//!
//! Fixtures are written by hand or generated, in the formats that the tools publish.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::needless_pass_by_value,
    missing_docs,
    reason = "tests"
)]

mod amplitude;
mod amplitude_platform;
mod clickhouse;
mod csv;
mod export_clients;
mod formats;
mod google_analytics;
mod mixpanel;
mod parquet;
mod segment;
mod snowplow;
mod support;
mod times;
