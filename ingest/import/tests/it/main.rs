//! Imports against a server whose answers the test writes, and fetches from fakes of export APIs.
//!
//! Rules: everything is on loopback; nothing is waited for but what ends by itself.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

mod answers;
mod fetching;
mod resends;
mod restarts;
mod server;
