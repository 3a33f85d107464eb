//! `millrace import load`: sends events to a server.

use super::options::{Common, Sources, TargetArguments};
use super::rejects_file::rejects_hint;
use crate::commands::{Invocation, table};
use crate::config::Config;
use crate::numbers::{count, seconds, up_to};
use crate::output;
use anyhow::bail;
use clap::{Args, ValueEnum};
use millrace_import::chunk::ChunkLimits;
use millrace_import::count::counted;
use millrace_import::load::{Load, Outcome, run as load};
use millrace_import::progress::ProgressReporter;
use millrace_import::send::Compression;
use millrace_import::stats::StageStats;
use millrace_rows::shown;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Error code of a project that has used up its import quota.
const VOLUME_EXCEEDED: &str = "migration_volume_exceeded";

/// Arguments of `load`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    target: TargetArguments,
    /// Number of files that are read in parallel
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = up_to::<u8, 64>)]
    parallel_files: u8,
    /// Largest number of requests in parallel; fewer when the server is busy
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = up_to::<u8, 64>)]
    parallel_requests: u8,
    /// Largest number of events in a request
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = up_to::<u16, 50_000>)]
    request_events: u16,
    /// Bytes of a chunk, whose progress is recorded as a whole
    #[arg(long, hide = true, value_name = "N", default_value_t = 16 << 20, value_parser = count::<usize>)]
    chunk_bytes: usize,
    /// Compression of request bodies; by default none to this machine, zstd to others
    #[arg(long, value_enum)]
    compress: Option<Compress>,
    /// Seconds without an accepted request after which the import stops
    #[arg(
        long,
        alias = "patience",
        value_parser = seconds::<u64>,
        value_name = "SECONDS",
        default_value_t = 900
    )]
    give_up_after: u64,
    /// Resend the records of a rejects file, corrected there or by the mapping
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "restart"])]
    rejects: Option<PathBuf>,
    /// Discard the progress of this import and start over; no event is stored twice, as the uuids
    /// are the same
    #[arg(long)]
    restart: bool,
}

/// Compression of request bodies.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Compress {
    /// Do not compress
    None,
    /// Compress with gzip
    Gzip,
    /// Compress with zstd
    Zstd,
}

impl From<Compress> for Compression {
    fn from(compress: Compress) -> Self {
        match compress {
            Compress::None => Self::None,
            Compress::Gzip => Self::Gzip,
            Compress::Zstd => Self::Zstd,
        }
    }
}

pub(super) fn run(
    config: &Config,
    arguments: &Arguments,
    invocation: &Invocation,
) -> anyhow::Result<()> {
    let (url, project_key) = arguments.target.resolve(config)?;
    let staging = arguments.common.open()?;
    let mut plan = arguments.sources.plan()?;
    plan.is_replay = arguments.rejects.is_some();
    let files = match arguments.rejects {
        Some(_) => Vec::new(),
        None => arguments.sources.files(&staging, invocation)?,
    };
    let stage = Load {
        url,
        project_key,
        plan,
        files,
        rejects: arguments.rejects.clone(),
        staging,
        is_restart: arguments.restart,
        files_parallel: usize::from(arguments.parallel_files),
        requests_parallel: usize::from(arguments.parallel_requests),
        compression: arguments.compress.map(Compression::from),
        give_up_after: Duration::from_secs(arguments.give_up_after),
        limits: ChunkLimits {
            request_events: usize::from(arguments.request_events),
            chunk_bytes: arguments.chunk_bytes,
            ..ChunkLimits::default()
        },
    };
    let stats = Arc::new(StageStats::default());
    let reporter = ProgressReporter::start("load", &stats, arguments.common.audience());
    let outcome = load(&stage, &stats);
    drop(reporter);
    let outcome = outcome?;
    if arguments.common.json {
        print_json_summary(&stage, &outcome, &stats);
    } else {
        print_summary(&stage, &outcome, &stats, invocation);
    }
    exit_result(&outcome, invocation)
}

fn print_json_summary(stage: &Load, outcome: &Outcome, stats: &StageStats) {
    let sum = &outcome.progress.sum;
    let rejected: u64 = sum.rejected.values().sum();
    let rejects = stage.staging.load(&stage.project_key).rejects();
    let snapshot = stats.snapshot();
    let result = json!({
        "stage": "load",
        "result": {
            "records": sum.records, "accepted": sum.accepted.total(), "generated": sum.generated.total(),
            "skipped": sum.skipped, "rejected": rejected, "rejected_by_code": sum.rejected,
            "rejects": rejects, "accepted_now": snapshot.accepted, "left_out_now": outcome.left_out,
            "passed_over_now": outcome.passed_over,
            "seconds": snapshot.seconds, "broken": outcome.broken,
            "stopped": outcome.stop.as_ref().map(|stop| &stop.code),
        },
    });
    output::print_json(&result.to_string());
}

fn print_summary(stage: &Load, outcome: &Outcome, stats: &StageStats, invocation: &Invocation) {
    let sum = &outcome.progress.sum;
    let rejected: u64 = sum.rejected.values().sum();
    let snapshot = stats.snapshot();
    if sum.records == 0 && outcome.stop.is_some() {
        // Nothing to summarize: `exit_result` reports the reason of the stop.
        return;
    }
    let generated = match sum.generated.total() {
        0 => String::new(),
        count => format!(" (and {count} that the mapping created from them)"),
    };
    output::print(&format!(
        "{}: {} accepted{generated}, {} skipped, {} rejected. This run: {} in {:.1} s.",
        counted(sum.records, "record"),
        counted(sum.accepted.total(), "event"),
        counted(sum.skipped, "record"),
        counted(rejected, "record"),
        counted(snapshot.accepted, "event"),
        snapshot.seconds,
    ));
    if outcome.left_out > 0 {
        output::print(&format!(
            "Omitted, as an earlier resend imported them: {}.",
            counted(outcome.left_out, "record")
        ));
    }
    for line in &outcome.passed_over {
        output::print(&format!(
            "Not sent again, as the line is longer than 32 MiB: {line}. It stays there; shorten its `raw` and send it then."
        ));
    }
    let is_over = outcome.stop.is_none() && outcome.broken.is_empty();
    if rejected > 0 {
        let rows = sum
            .rejected
            .iter()
            .map(|(code, count)| [code.clone(), count.to_string()]);
        table::print(["REJECTED AS", "RECORDS"], rows.collect(), "");
        let folder = stage.staging.load(&stage.project_key);
        output::print(&rejects_hint(&folder, rejected, invocation));
    }
    if is_over {
        output::print(&format!(
            "Compare with what is stored:\n  {}",
            invocation.command("import reconcile", &["rejects", "restart", "json"])
        ));
    }
}

fn exit_result(outcome: &Outcome, invocation: &Invocation) -> anyhow::Result<()> {
    if let Some(stop) = &outcome.stop {
        if stop.code == VOLUME_EXCEEDED {
            bail!(
                "the import stopped ({}): {}\nThe operator approves more with:\n  {} --project-id PROJECT_ID --total-events N \
                 --events-per-minute N\nThen continue where it stopped with:\n  {}",
                stop.code,
                stop.message,
                invocation.command("migrations approve", &[]),
                invocation.command("import load", &["restart"])
            );
        }
        bail!("the import stopped ({}): {}", stop.code, stop.message);
    }
    if !outcome.broken.is_empty() {
        let list: Vec<_> = outcome
            .broken
            .iter()
            .map(|(file, message)| format!("  {}: {}", shown(file), shown(message)))
            .collect();
        bail!(
            "{} could not be read to the end; what was read is imported. Correct what is wrong and run the same \
             command again:\n{}",
            counted(list.len() as u64, "file"),
            list.join("\n")
        );
    }
    Ok(())
}
