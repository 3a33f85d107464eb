//! The write path: accepted rows into the log, and from the log into ClickHouse.
//!
//! ```text
//! Slot::submit ──bounded channel──> commit thread ──append, sync──> log ──> ship ──> ClickHouse
//!      ▲                                  │
//!      └───────────── oneshot ────────────┘
//! ```
//!
//! | Module | Does |
//! |---|---|
//! | [`Pipeline`] (`pipeline`) | admits requests, sheds load before it costs anything |
//! | [`Slot`] (`slot`) | one request: compresses large groups on the caller's core, waits for the commit |
//! | [`Committed`] (`committed`) | a batch that is stored, and what is left to wait for |
//! | `lanes` | what requests need of a lane |
//! | `pack` | turns rows into ClickHouse blocks |
//! | `commit` | the thread that owns a lane's log: takes what waits, appends, syncs once, answers everyone |
//! | `commit_group` | the requests that one sync commits |
//! | `unwritten_rows` | rows whose request is answered before they are written |
//! | `join` | makes one section of small groups |
//! | `flush_barrier` | waits until all that was submitted is shipped |
//! | `log_panic` | panics while the log is read, with their place |
//! | `metrics` | names and descriptions of the metrics |
//! | [`ImportTokens`], [`ImportReservation`] (`import_count`) | counts the events of imports |
//! | `capacity` | limits of log and queue past which requests are refused |
//! | `threads` | threads, flags and channels, which are shuttle's in tests |
//! | [`ship`] | the log into ClickHouse, each row exactly once |
//!
//! There are two lanes, each with a log, a commit thread and a shipper of its own
//! ([`millrace_rows::Lane`]). A request goes to one lane as a whole, so that it is stored as a
//! whole or not at all.

#![forbid(unsafe_code)]

mod capacity;
mod commit;
mod commit_group;
mod committed;
mod flush_barrier;
mod import_count;
mod join;
mod lanes;
mod log_panic;
mod metrics;
mod pack;
mod pipeline;
mod queue_permit;
pub mod ship;
mod slot;
#[cfg(test)]
mod thread_schedules;
mod threads;
mod unwritten_rows;

pub use capacity::Refusal;
pub use committed::{Committed, Pending};
pub use flush_barrier::FlushEnds;
pub use import_count::{ImportReservation, ImportTokens};
pub use lanes::Ack;
pub use millrace_log::{Position, panic_point};
pub use pipeline::{LaneOutput, Pipeline, PipelineError, PipelineOptions, Running};
pub use slot::Slot;
