//! What the benches share: requests of known shape, made without chance so that two runs measure
//! the same bytes, and the way that they go.
//!
//! - [`requests`]: the bodies.
//! - [`hot_path`]: what is done with them.
//! - [`hostile`]: requests that are made to cost much.
//! - [`store`]: a log for them.
//! - [`check`]: `make bench-check`, instructions counted and compared.

#![forbid(unsafe_code)]

pub mod check;
pub mod hostile;
pub mod hot_path;
pub mod requests;
pub mod store;
