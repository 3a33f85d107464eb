//! Imports into a server whose responses the test scripts, and fetches from fakes of export APIs.
//!
//! Rules: everything is on loopback; tests wait only for things that end by themselves.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

mod fetching;
mod resends;
mod responses;
mod restarts;
mod server;
