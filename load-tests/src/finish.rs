//! End of a command that has results: its files, and its exit code by `--fail-if`.

use crate::cli::FileArgs;
use anyhow::Result;
use millrace_load::fail_if::Condition;
use millrace_load::prometheus::PrometheusFile;
use millrace_load::{Summary, command_line, html, series_csv};
use std::process::ExitCode;

/// Creates the file of the metrics, if there is to be one.
pub fn prometheus_file(files: &FileArgs) -> Result<Option<PrometheusFile>> {
    let path = files.prometheus.as_deref();
    path.map(PrometheusFile::create).transpose()
}

/// Writes the requested files and judges the results.
pub fn end(
    summary: &mut Summary,
    files: &FileArgs,
    prometheus: Option<&PrometheusFile>,
) -> Result<ExitCode> {
    summary.command = command_line::shown(std::env::args());
    if let Some(file) = &files.json {
        summary.write(file)?;
    }
    if let Some(file) = &files.hdr_log {
        summary.write_hdr_log(file)?;
    }
    if let Some(file) = &files.csv {
        series_csv::write(file, &summary.series)?;
    }
    if let Some(file) = prometheus {
        file.finish(summary)?;
    }
    if let Some(file) = &files.html {
        html::write(file, &html::run_page(summary)?)?;
    }
    Ok(judged(summary, &files.fail_if))
}

/// Exit code 1 if a condition is met; each such condition is shown with its figure.
fn judged(summary: &Summary, conditions: &[Condition]) -> ExitCode {
    let met = conditions.iter().filter_map(|it| it.met_by(summary));
    let met: Vec<_> = met.collect();
    for failure in &met {
        eprintln!("millrace-load: failed by {failure}");
    }
    if met.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
