//! Code that the benches share: requests of known content and the path they take. No randomness,
//! so that two runs measure the same bytes.
//!
//! - [`requests`]: the bodies.
//! - [`hot_path`]: parses a body and commits it.
//! - [`hostile`]: requests that are made to be expensive.
//! - [`store`]: a log for them.
//! - [`native`]: blocks of their rows, as ClickHouse is sent them.
//! - [`check`]: `make bench-check`, instructions counted and compared.

#![forbid(unsafe_code)]

pub mod check;
pub mod hostile;
pub mod hot_path;
pub mod native;
pub mod requests;
pub mod store;
