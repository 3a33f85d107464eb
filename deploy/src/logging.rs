//! Log lines: to standard error, for people or as JSON.

use crate::config::LogFormat;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Starts logging; the filter was checked with the settings. A `supervised` process is read by its parent.
///
/// # Errors
/// When the filter cannot be read.
pub fn start(format: LogFormat, filter: &str, supervised: bool) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| anyhow::anyhow!("log_level is {filter:?}: {error}; try `info`"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        // The parent writes each line again, with a time and a level of its own.
        _ if supervised => builder
            .with_target(false)
            .without_time()
            .with_level(false)
            .init(),
        LogFormat::Human => builder.with_target(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}
