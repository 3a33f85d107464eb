//! Exports of other tools in, our events out.
//!
//! A file is decompressed by the caller ([`Input`]), taken apart by a [`Framing`], and each record made
//! into events by a [`Mapping`]. A [`Format`] names the two; [`Options`] are what its user may choose.
//!
//! | Module | Holds |
//! |---|---|
//! | `record` | records, positions, what is wrong with them |
//! | `events` | what mappings write |
//! | `export` | export APIs |

#![forbid(unsafe_code)]

mod events;
mod export;
mod record;
pub mod time;

pub use events::{Event, EventWriter, Events, Id, Mapping};
pub use export::{Export, FetchError, Part};
pub use record::{FileError, Framing, Input, Position, Record, RecordError};
