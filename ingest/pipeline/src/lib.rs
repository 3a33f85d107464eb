//! From accepted rows to ClickHouse.
//!
//! ```text
//! Slot::submit ──bounded channel──> commit thread ──append, fdatasync──> log ──> ship ──> ClickHouse
//!      ▲                                  │
//!      └───────────── oneshot ────────────┘
//! ```
//!
//! | Module | Does |
//! |---|---|
//! | [`Pipeline`] (`submit`) | sheds load before it costs anything |
//! | [`Slot`] (`slot`) | one request: compresses large groups on the caller's core, waits for the commit |
//! | `pack` | turns rows into ClickHouse blocks |
//! | `commit` | the thread that owns a lane's log: takes what waits, appends, syncs once, answers everyone |
//! | `group` | what one sync commits, as it is gathered |
//! | `join` | makes one section of small groups |
//! | `mark` | waits until all that was submitted is shipped |
//! | `metrics` | what is counted, in words |
//! | [`Admission`], [`Tally`] (`tally`) | counts the events of imports |
//! | `retention` | what of the log may go |
//! | `room` | how full log and queue may get before requests are refused |
//! | `threads` | threads, flags and channels, which are shuttle's in tests |
//! | [`ship`] | the log into ClickHouse, each row exactly once |
//!
//! There are two lanes, each with a log, a commit thread and a shipper of its own
//! ([`millrace_rows::Lane`]). A request goes to one lane as a whole, so that it is stored as a
//! whole or not at all.

#![forbid(unsafe_code)]

mod commit;
mod group;
mod join;
mod mark;
mod metrics;
mod pack;
mod place;
mod retention;
mod room;
#[cfg(test)]
mod schedules;
pub mod ship;
mod slot;
mod submit;
mod tally;
mod threads;

pub use millrace_log::Position;
pub use retention::Retention;
pub use room::Refusal;
pub use slot::{Committed, Pending, Slot};
pub use submit::{Ack, LaneOutput, Pipeline, PipelineError, PipelineOptions, Running};
pub use tally::{Admission, Tally};
