//! Request bodies in, validated and encoded rows out; no I/O, no clock.
#![forbid(unsafe_code)]

mod error;
mod facts;
mod parser;
mod report;

pub use error::{ApiError, ErrorType};
pub use facts::{Facts, KeyLookup, Limits, Project, Protocol};
pub use parser::Parser;
pub use report::{
    EventResult, Outcome, ParseError, Parsed, REPORT_ENTRIES_MAX, Rejection, Report, UuidText,
    Warning,
};
