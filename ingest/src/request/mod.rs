//! Head of a request: path, query and fields.
//!
//! One reader for the two who look at heads: the handlers, behind hyper, and the early reject
//! ([`crate::admission`]), before it.

pub mod head;
pub mod query;
pub mod route;
