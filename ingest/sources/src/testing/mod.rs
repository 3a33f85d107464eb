//! Exports and export APIs as tests need them, made by a seed. With the feature `testing` only.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests"
)]

mod bomb_pages;
mod bombs;
mod fake;
mod generate;
mod records;
mod wire;

pub use bomb_pages::{int96_bytes, int96_file};
pub use bombs::{Bomb, Outcome, parquet_bombs};
pub use fake::{FakeApi, Mishap, Service};
pub use generate::{generate, lines};
