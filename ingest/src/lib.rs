//! The hot path: HTTP in, validated rows into the log, the log into ClickHouse.
#![forbid(unsafe_code)]

pub mod batch;
pub mod error;
