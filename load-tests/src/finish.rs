//! End of a command that has results: its files.

use crate::cli::FileArgs;
use anyhow::Result;
use millrace_load::{Summary, command_line, html};

/// Writes the requested files.
pub fn write(summary: &mut Summary, files: &FileArgs) -> Result<()> {
    summary.command = command_line::shown(std::env::args());
    if let Some(file) = &files.json {
        summary.write(file)?;
    }
    if let Some(file) = &files.hdr_log {
        summary.write_hdr_log(file)?;
    }
    if let Some(file) = &files.html {
        html::write(file, &html::run_page(summary)?)?;
    }
    Ok(())
}
