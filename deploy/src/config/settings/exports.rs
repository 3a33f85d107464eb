//! Settings of batch exports.

use clap::Args;
use std::path::PathBuf;

/// Batch exports: destinations that are allowed, concurrency and retention.
#[derive(Args, Clone, Debug)]
pub struct ExportSettings {
    /// Folder of exports to files; without it there are no exports to files
    ///
    /// Each organization has a subfolder, whose name is its id.
    #[arg(long, global = true, env = "MILLRACE_EXPORT_ROOT", value_name = "DIR")]
    pub export_root: Option<PathBuf>,
    /// Batch exports that an organization may have; 0: any number
    #[arg(
        long,
        global = true,
        env = "MILLRACE_BATCH_EXPORTS_MAX",
        value_name = "COUNT",
        default_value_t = 200
    )]
    pub batch_exports_max: u64,
    /// Batch exports that run at a time, at most half of them (at least one) of one organization;
    /// 0: other processes run them
    #[arg(
        long,
        global = true,
        env = "MILLRACE_EXPORT_RUNS_MAX",
        value_name = "COUNT",
        default_value_t = 2
    )]
    pub export_runs_max: usize,
    /// Days that runs of batch exports are kept after their end; 0: for ever
    ///
    /// The ten newest runs of an export and the last one that completed are kept in any case.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_EXPORT_RUNS_KEPT_DAYS",
        value_name = "DAYS",
        default_value_t = 365
    )]
    pub export_runs_kept_days: u32,
    /// Days that log lines of runs are kept; 0: as long as the runs
    #[arg(
        long,
        global = true,
        env = "MILLRACE_EXPORT_LOGS_KEPT_DAYS",
        value_name = "DAYS",
        default_value_t = 30
    )]
    pub export_logs_kept_days: u32,
    /// Allow exports, and the checks of proxy records, to connect to private networks, too
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
