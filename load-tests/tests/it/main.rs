//! The generator against its own baseline server, over real sockets.
//!
//! Every test has a server of its own on port 0; counts are exact, times are never asserted.
//! `verify` is tested against the real engine, in the tests of the `millrace` binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

mod binary;
mod joined;
mod loops;
mod mixes;
mod outages;
mod pages;
mod peers;
mod power;
mod projects;
mod proxy;
mod recording;
mod scripted;
mod server;
mod servers_of_others;
mod stages;
mod suite;
mod tls;
