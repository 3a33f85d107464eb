//! Request bodies in, validated and encoded rows out; no I/O, no clock.
//!
//! One pass of SIMD finds where the structure of a body is, one walk over that structure notes
//! where the fields that matter are, and one copy puts them into rows. Nothing is decoded that
//! is not looked at, and nothing is allocated per event.
//!
//! | Module | Holds |
//! |---|---|
//! | `parser` | [`Parser`]: the steps in order |
//! | `index` | the SIMD pass |
//! | `walk` | the walk: shapes, events, fields |
//! | `span` | where things are in a body |
//! | `slow` | bodies that the walk refuses: repair, or the exact fault |
//! | `footprint` | how much memory a body may take |
//! | `key`, `skew`, `v1` | what is decided per request |
//! | `judge` | what is decided per event |
//! | `text`, `timestamp`, `ids` | strings, times and uuids |
//! | `person` | what an event says of a person or a group |
//! | `fingerprint` | what a request is known by when it is sent again |
//! | `splice`, `rows` | properties and rows as they are stored |
//! | `report`, `reporter`, `error` | what the client is told |

#![deny(unsafe_code)]

mod error;
mod facts;
mod fingerprint;
mod footprint;
mod ids;
mod index;
mod judge;
mod key;
mod parser;
mod person;
mod report;
mod reporter;
mod rows;
mod skew;
mod slow;
mod span;
mod splice;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod text;
mod timestamp;
mod v1;
mod walk;

pub use error::{ApiError, ErrorType};
pub use facts::{Facts, KeyLookup, Limits, Project, Protocol};
pub use footprint::Footprint;
pub use parser::Parser;
pub use report::{
    EventResult, Outcome, ParseError, Parsed, REPORT_ENTRIES_MAX, Rejection, Report, UuidText,
    Warning,
};
pub use timestamp::parse as parse_timestamp;
