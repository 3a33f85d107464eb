//! Settings of batch exports.

use crate::numbers::{count, days};
use clap::Args;
use std::path::PathBuf;

/// Batch exports: destinations that are allowed, concurrency and retention.
#[derive(Args, Clone, Debug)]
pub struct ExportSettings {
    /// Root folder of exports to files; without it there are no exports to files
    ///
    /// Each organization has a subfolder, whose name is its id.
    #[arg(long, global = true, env = "MILLRACE_EXPORT_ROOT", value_name = "DIR")]
    pub export_root: Option<PathBuf>,
    /// Number of batch exports that an organization may have; 0: no limit
    #[arg(
        long,
        global = true,
        env = "MILLRACE_BATCH_EXPORTS_MAX",
        value_parser = count::<u64>,
        value_name = "COUNT",
        default_value_t = 200
    )]
    pub batch_exports_max: u64,
    /// Number of export runs at a time; 0: none, as other processes run them
    ///
    /// One organization has at most half of them, or one.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_EXPORT_RUNS_MAX",
        value_parser = count::<usize>,
        value_name = "COUNT",
        default_value_t = 2
    )]
    pub export_runs_max: usize,
    /// Retention of export runs in days after their end; 0: forever
    ///
    /// The ten newest runs of an export and the last one that completed are kept in any case.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_EXPORT_RUNS_KEPT_DAYS",
        value_parser = days::<u32>,
        value_name = "DAYS",
        default_value_t = 365
    )]
    pub export_runs_kept_days: u32,
    /// Retention of the log lines of export runs in days; 0: as long as the runs
    #[arg(
        long,
        global = true,
        env = "MILLRACE_EXPORT_LOGS_KEPT_DAYS",
        value_parser = days::<u32>,
        value_name = "DAYS",
        default_value_t = 30
    )]
    pub export_logs_kept_days: u32,
    /// Allow exports and the checks of proxy records to connect to private networks
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ALLOW_PRIVATE_DESTINATIONS",
        default_value_t = false,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        value_name = "BOOL",
        action = clap::ArgAction::Set
    )]
    pub allow_private_destinations: bool,
}
