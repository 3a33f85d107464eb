//! Real handshakes over sockets, with clients of rustls and certificates made for each test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

mod handshakes;
mod limits;
mod listener;
mod own_client;
