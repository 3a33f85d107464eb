//! Exports and export APIs as tests need them, made by a seed. With the feature `testing` only.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests"
)]

mod fake;
mod generate;
mod records;

pub use fake::{FakeApi, Mishap, Service};
pub use generate::{generate, lines};
