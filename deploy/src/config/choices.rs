//! Settings with a fixed set of values.

use clap::ValueEnum;

/// Moment at which a request is answered with success.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum AckSetting {
    /// On disk: survives a crash of the process and of the machine
    Disk,
    /// In ClickHouse: can be queried when the answer arrives
    Clickhouse,
    /// Queued only: a crash loses what was not yet on disk
    Memory,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Human,
    /// One JSON object a line
    Json,
}
