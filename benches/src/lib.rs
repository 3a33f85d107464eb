//! What the benches share: requests of known shape, made without chance so that two runs measure
//! the same bytes.

#![forbid(unsafe_code)]

pub mod requests;
