//! The client against the real engine.
//!
//! Every test uses a database of its own on the engine that the binary shares; tests that kill
//! the engine start one of their own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

millrace_embedded::engine_process!();

mod ddl;
mod faults;
mod filled_columns;
mod fixture;
mod gateway;
mod hosts;
mod inserts;
mod native;
mod persons;
mod presence;
mod profiles;
mod project_queries;
mod property_columns;
mod proxy;
mod purge;
mod quorum;
mod reads;
mod rejected_events;
mod row_owner;
mod sampled_properties;
mod shards;
mod stale_answers;
mod stats;
