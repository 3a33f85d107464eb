//! Parser: request bodies in, validated and encoded rows out; no I/O, no clock.
//!
//! One pass of SIMD finds the structure of a body, one walk over that structure notes where the
//! fields that matter are, and one copy puts them into rows. Nothing is decoded that is not used,
//! and nothing is allocated per event.
//!
//! | Module | Holds |
//! |---|---|
//! | `parser` | [`Parser`]: the steps in order |
//! | `context` | [`ParseContext`]: what is known of a request besides its body |
//! | `index` | the SIMD pass |
//! | `walk` | the walk: shapes, events, fields |
//! | `characters` | characters of JSON, for all passes |
//! | `span` | places of values in a body |
//! | `slow` | bodies that the walk refuses: repair, or the exact error |
//! | `footprint` | memory that a body may take |
//! | `key`, `skew`, `v1` | decisions per request |
//! | `validate` | decisions per event |
//! | `text`, `timestamp`, `ids` | strings, times and uuids |
//! | `person` | updates of persons and groups by an event |
//! | `fingerprint` | number by which a resent request is known |
//! | `splice`, `rows` | properties and rows as they are stored |
//! | `report`, `reporter`, `error` | answers to the client |

#![deny(unsafe_code)]

mod characters;
mod context;
mod error;
mod fingerprint;
mod footprint;
mod ids;
mod index;
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
mod validate;
mod walk;

pub use context::{KeyLookup, Limits, ParseContext, Project, Protocol};
pub use error::{ApiError, ErrorType};
pub use footprint::Footprint;
pub use parser::Parser;
pub use report::{
    EventResult, Outcome, ParseError, Parsed, REPORT_ENTRIES_MAX, Rejection, Report, UuidText,
    Warning,
};
pub use timestamp::parse as parse_timestamp;
