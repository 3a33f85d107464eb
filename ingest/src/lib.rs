//! The HTTP side of the hot path.
#![forbid(unsafe_code)]
