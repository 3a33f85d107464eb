//! Batch exports: windows of rows from ClickHouse to where customers want them.
//!
//! | Module | Holds | May use |
//! |---|---|---|
//! | [`query`] | customers' SELECTs: what they may say, and how they are written anew | – |
//! | [`window`] | what a run exports | – |
//! | [`rows`] | the statements that read a window, the forms rows come in, how they are counted | query, window |
//! | [`destination`] | where rows go: one folder or file for each kind | window, rows |
//! | [`engine`] | who runs, what is due, one run from claim to end, notices, metrics | all |
//!
//! Constraints:
//! - ClickHouse encodes rows; here they are passed on in pieces, so memory does not grow with the
//!   window.
//! - What a run publishes depends on its window alone: a run that is tried again overwrites what it
//!   made before, and nothing else.
//! - No text of a customer reaches ClickHouse but as a quoted literal or written anew from its parse.

#![forbid(unsafe_code)]

pub mod destination;
pub mod engine;
pub mod error;
pub mod query;
pub mod rows;
pub mod window;

pub use error::{ExportError, Outlook};
