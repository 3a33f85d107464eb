//! Outputs of a run.

use clap::Args;
use millrace_load::Plan;
use millrace_load::fail_if::Condition;
use std::path::PathBuf;

/// Outputs of a run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub struct OutputArgs {
    /// Files of the results.
    #[command(flatten)]
    pub files: FileArgs,
    /// Append acknowledged batches to this file, for `verify`.
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Process id of the server: report its CPU time and memory, too.
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Do not show the progress line.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Files of results.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub struct FileArgs {
    /// Write the results to this file as JSON, for `compare`, `join` and other programs.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with plots of the results over time: one file that loads nothing.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write latencies second by second as an HdrHistogram log, for HdrHistogram's tools.
    #[arg(long, value_name = "FILE")]
    pub hdr_log: Option<PathBuf>,
    /// Write rates and latencies second by second as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write metrics for Prometheus' textfile collector, about once a second and at the end.
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    /// Exit with 1 if a condition is met, such as 'p99>5ms,failed>0.1%,rate<100000'. Figures are
    /// min, mean, p50 to p99.99, max, failed, unsent and rate; failed counts the warm-up, too.
    #[arg(long, value_name = "CONDITION,…", value_delimiter = ',', value_parser = Condition::parse)]
    pub fail_if: Vec<Condition>,
}

impl OutputArgs {
    /// Gives a plan what its run has to record.
    pub fn apply(&self, plan: &mut Plan) {
        plan.ledger.clone_from(&self.ledger);
        plan.server_pid = self.server_pid;
    }
}
