//! What a fuzzer calls, and what must hold of whatever it sends.
//!
//! Each target is a plain function of bytes that panics when it finds something. Two things call
//! them: `tests`, on stable, with the corpus and some thousands of changes to it by a fixed seed;
//! and `libfuzzer`, on nightly, guided by coverage, for hours (`make fuzz`).
//!
//! | Target | Takes | What must hold |
//! |---|---|---|
//! | [`parse`] | a choice of facts, JSON | both indexes agree; what is taken is JSON to serde_json, and names, ids, times and raw properties are what a model makes of it |
//! | [`timestamp`] | a timestamp | the instant that the `time` crate makes of it |
//! | [`body`] | a choice of encodings, a body | no more comes out than is allowed, the same as from a fresh decoder and from other libraries |
//! | [`cost`] | a description of a body that repeats itself | it takes no more memory than 1 MiB for each kB sent, or with a known key 40 bytes for each decoded one; and no more time than `make bench-check` allows |
//! | [`frame`] | a frame of the log | what is taken is byte for byte what we would write |
//! | [`record`] | a choice of formats, a record of another tool | a mapping refuses it or makes events that the parser reads |
//! | [`recovery`] | two segments | the log opens, twice the same, and goes on |

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

/// A target: panics when it finds something.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also its corpus's.
pub const TARGETS: [(&str, Target); 7] = [
    ("body", body),
    ("cost", cost),
    ("frame", frame),
    ("parse", parse),
    ("record", record),
    ("recovery", recovery),
    ("timestamp", timestamp),
];
