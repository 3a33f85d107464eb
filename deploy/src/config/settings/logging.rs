//! Settings of log lines.

use super::values::{log_file_size, log_filter};
use crate::numbers::up_to;
use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Most older log files that are kept: they are renamed one by one.
const FILES_KEPT_MAX: u64 = 1_000;

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
    /// File that a server writes log lines to, instead of standard error
    ///
    /// It is rotated by size. Each process needs a file of its own.
    #[arg(long, global = true, env = "MILLRACE_LOG_FILE", value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// Size of `log_file` at which a new one is begun; at least 64KiB
    #[arg(
        long,
        global = true,
        env = "MILLRACE_LOG_FILE_BYTES_MAX",
        value_parser = log_file_size,
        value_name = "SIZE",
        default_value = "100MiB"
    )]
    pub log_file_bytes_max: ByteSize,
    /// Number of older log files that are kept, as `<log_file>.1` and so on
    #[arg(
        long,
        global = true,
        env = "MILLRACE_LOG_FILES_KEPT",
        value_parser = up_to::<u32, FILES_KEPT_MAX>,
        value_name = "N",
        default_value_t = 5
    )]
    pub log_files_kept: u32,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Human,
    /// One JSON object a line
    Json,
}
