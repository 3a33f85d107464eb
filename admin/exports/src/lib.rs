//! Batch exports: windows of rows from ClickHouse to customers' destinations.
//!
//! | Module | Holds | May use |
//! |---|---|---|
//! | `secrets` | encryption of secrets that must be read back | – |
//! | `records` | exports, their runs, backfills and log lines in the catalog | secrets |
//! | [`query`] | customers' SELECTs: checks them, and rewrites them from their parse | – |
//! | [`window`] | the time range, project and model of a run | – |
//! | [`rows`] | statements that read a window, row formats, row counters | query, window |
//! | [`destination`] | destinations: one folder or file for each kind | window, rows, records |
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
mod records;
pub mod rows;
mod secrets;
#[cfg(feature = "testing")]
pub mod testing;
pub mod window;

pub use error::{ExportError, ExportErrorKind};
pub use records::{
    BACKFILL_RUNS_AHEAD, BackfillRange, BackfillRoundRobin, Backfills, BatchExportChange,
    BatchExportView, BatchExports, CheckedDestination, ClaimedRun, DestinationChange,
    DestinationField, DestinationLimits, DestinationSpec, ExportInterval, ExportLogFilter,
    ExportLogs, ExportPlace, ExportPlanner, ExportRuns, ExportWriter, FILE_FORMATS, FieldKind,
    FieldNeed, IntervalError, NeededWhen, NewBatchExport, NewExportLog, NewRun, OpenBackfill,
    PrunedRuns, RunCursor, RunFilter, RunOrder, RunOutcome, RunProgress, RunRoundRobin, Sample,
    TAKE_BACK_MAX, UnknownExportValue, Unpaused, secrets_of, set_features,
};
pub use secrets::{SecretError, SecretKey};
