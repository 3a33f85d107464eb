//! Fuzz targets of ingestion and the log.
//!
//! Each target is a plain function of bytes that panics when an invariant fails. They are called
//! by `tests`, on stable, with the corpus and some thousands of changes to it by a fixed seed; and
//! by `libfuzzer`, on nightly, guided by coverage, for hours (`make fuzz`).
//!
//! | Target | Input | Invariant |
//! |---|---|---|
//! | [`parse`] | a choice of parse contexts, JSON | both indexes agree; an accepted body is JSON to serde_json, and its names, ids, times and raw properties equal those of a reference parser |
//! | [`timestamp`] | a timestamp | the instant is the one that jiff reads |
//! | [`body`] | a choice of encodings, a body | the output is within its limit, and equals that of a fresh decoder and of other libraries |
//! | [`cost`] | a description of a repetitive body | it takes at most 1 MiB of memory for each kB sent, or with a known key 40 bytes for each decoded byte; `climb` maximises that and core time, in each encoding and way of sending |
//! | [`frame`] | a frame of the log | an accepted frame is byte for byte what we would write |
//! | [`record`] | a choice of formats, a record of another tool | a mapping refuses it or makes events that the parser reads |
//! | [`recovery`] | two segments | the log opens, twice with the same content, and accepts a further frame |

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a finding is a panic"
)]

mod body;
mod cost;
mod frame;
mod mutate;
mod parse;
mod record;
mod recovery;
mod timestamp;

pub use body::body;
pub use cost::{Cost, cost, cost_of, time_of};
pub use frame::{frame, frame_blocks};
pub use mutate::Mutator;
pub use parse::parse;
pub use record::record;
pub use recovery::recovery;
pub use timestamp::timestamp;

/// A fuzz target, which panics when an invariant fails.
pub type Target = fn(&[u8]);

/// Every target with its name, which is also the name of its corpus.
pub const TARGETS: [(&str, Target); 7] = [
    ("body", body),
    ("cost", cost),
    ("frame", frame),
    ("parse", parse),
    ("record", record),
    ("recovery", recovery),
    ("timestamp", timestamp),
];
