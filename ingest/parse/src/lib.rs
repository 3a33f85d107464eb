//! Request bodies in, validated and encoded rows out; no I/O, no clock.
#![forbid(unsafe_code)]

mod error;

pub use error::{ApiError, ErrorType};
