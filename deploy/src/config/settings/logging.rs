//! Settings of log lines.

use super::values::log_filter;
use clap::{Args, ValueEnum};

/// Settings of log lines.
#[derive(Args, Clone, Debug)]
pub struct LogSettings {
    /// Format of log lines
    #[arg(
        long,
        global = true,
        env = "MILLRACE_LOG_FORMAT",
        default_value = "human",
        value_name = "FORMAT"
    )]
    pub log_format: LogFormat,
    /// Level of log lines, as in `info,millrace_pipeline=debug`
    ///
    /// A level (`off`, `error`, `warn`, `info`, `debug`, `trace`), and parts of the program with
    /// levels of their own.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_LOG_LEVEL",
        value_parser = log_filter,
        default_value = "info",
        value_name = "FILTER"
    )]
    pub log_level: String,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Human,
    /// One JSON object a line
    Json,
}
