//! Batch exports: windows of rows from ClickHouse to customers' destinations.
//!
//! | Module | Holds | May use |
//! |---|---|---|
//! | [`query`] | customers' SELECTs: checks them, and rewrites them from their parse | – |
//! | [`window`] | the time range, project and model of a run | – |
//! | [`rows`] | statements that read a window, row formats, row counters | query, window |
//! | [`destination`] | destinations: one folder or file for each kind | window, rows |
//! | [`engine`] | leader, planning, one run from claim to end, notices, metrics | all |
//!
//! Constraints:
//! - ClickHouse encodes rows; they are passed on in pieces, so memory does not grow with the
//!   window.
//! - A run's output depends on its window alone: a retried run overwrites what it published before,
//!   and nothing else.
//! - No text of a customer reaches ClickHouse except as a quoted literal or rewritten from its
//!   parse.

#![forbid(unsafe_code)]

pub mod destination;
pub mod engine;
pub mod error;
pub mod query;
pub mod rows;
pub mod window;

pub use error::{ExportError, ExportErrorKind};
