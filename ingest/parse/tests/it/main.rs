//! Tests of the contract of request bodies, table by table.
//!
//! Every test sends bodies to a real [`millrace_parse::Parser`] and reads the RowBinary that comes
//! out. `support` has the sending and the reading; no test looks inside the crate.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

mod edges;
mod fields;
mod fingerprint;
mod model;
mod odd_json;
mod person;
mod properties;
mod report;
mod sdk;
mod shapes;
mod support;
mod times;
mod v1;
