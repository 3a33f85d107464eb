//! Tests of the guard's public interface.
//!
//! Rules: nothing leaves this machine; what must not be dialled is a canary, a listener on every
//! address that this machine has, which must not see a connection; every test has a control in
//! which it does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

mod canary;
mod forms;
mod inside;
mod many_addresses;
mod properties;
mod proxies;
mod rebinding;
mod redirects;
mod resolver;
mod slow_resolver;
