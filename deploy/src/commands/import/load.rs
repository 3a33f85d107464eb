//! `millrace import load`: sends events.

use super::rejects::where_they_are;
use super::{Common, Sources};
use crate::commands::{Given, table};
use crate::config::Config;
use crate::open;
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use millrace_import::chunk::Cuts;
use millrace_import::count::counted;
use millrace_import::load::{Load, Outcome, run as load};
use millrace_import::meter::Meter;
use millrace_import::progress::Watch;
use millrace_import::send::{Compression, server_url};
use millrace_rows::shown;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The code of a project that has imported all it may.
const VOLUME_EXCEEDED: &str = "migration_volume_exceeded";

/// What `load` is told.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    target: TargetArguments,
    /// Files that are read at once
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    parallel_files: u8,
    /// Requests under way at once, at most; fewer are when the server is busy
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    parallel_requests: u8,
    /// Events of a request, at most
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u16).range(1..=50_000))]
    request_events: u16,
    /// Bytes of a stretch that is recorded as a whole
    #[arg(long, hide = true, value_name = "N", default_value_t = 16 << 20)]
    chunk_bytes: usize,
    /// How bodies are compressed; by default not at all to this machine, and by zstd to others
    #[arg(long, value_enum)]
    compress: Option<Compress>,
    /// Seconds that the server may take nothing before the import stops
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    patience: u64,
    /// Send the records of a file of rejects again, mended there or by the mapping
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "restart"])]
    rejects: Option<PathBuf>,
    /// Forget how far this import is and begin anew; nothing is stored twice, as the events have the same uuids
    #[arg(long)]
    restart: bool,
}

/// Where events go.
#[derive(Args, Clone, Debug)]
pub struct TargetArguments {
    /// Where events are posted to, such as https://events.example.com; by default the server of --data-dir
    #[arg(long)]
    pub(super) url: Option<String>,
    /// The key of the project that gets the events; try a project of its own first
    #[arg(long, value_name = "KEY")]
    project_key: Option<String>,
}

impl TargetArguments {
    /// The server and the key: those of the running server of the data folder by default.
    pub(super) fn resolve(&self, config: &Config) -> anyhow::Result<(String, String)> {
        if let Some(url) = &self.url {
            server_url(url)?;
        }
        if let (Some(url), Some(key)) = (&self.url, &self.project_key) {
            return Ok((url.clone(), key.clone()));
        }
        let running = open::running(config).context(
            "say where the events go with --url and --project-key, or run the server here",
        )?;
        let url = self.url.clone().unwrap_or(running.ingest_url);
        if url.is_empty() {
            bail!("the server of the data folder takes no events; say where they go with --url");
        }
        let key = self.project_key.clone().unwrap_or(running.project_api_key);
        Ok((url, key))
    }
}

/// A compression by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Compress {
    /// Not at all
    None,
    /// By gzip
    Gzip,
    /// By zstd
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

pub(super) fn run(config: &Config, arguments: &Arguments, given: &Given) -> anyhow::Result<()> {
    let (url, project_key) = arguments.target.resolve(config)?;
    let staging = arguments.common.open()?;
    let mut plan = arguments.sources.plan()?;
    plan.is_replay = arguments.rejects.is_some();
    let files = match arguments.rejects {
        Some(_) => Vec::new(),
        None => arguments.sources.files(&staging, given)?,
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
        patience: Duration::from_secs(arguments.patience),
        cuts: Cuts {
            request_events: usize::from(arguments.request_events),
            chunk_bytes: arguments.chunk_bytes,
            ..Cuts::default()
        },
    };
    let meter = Arc::new(Meter::default());
    let watch = Watch::start("load", &meter, arguments.common.audience());
    let outcome = load(&stage, &meter);
    drop(watch);
    let outcome = outcome?;
    if arguments.common.json {
        tell_machine(&stage, &outcome, &meter);
    } else {
        tell(&stage, &outcome, &meter, given);
    }
    judge(&outcome, given)
}

fn tell_machine(stage: &Load, outcome: &Outcome, meter: &Meter) {
    let sum = &outcome.progress.sum;
    let rejected: u64 = sum.rejected.values().sum();
    let rejects = stage.staging.load(&stage.project_key).rejects();
    let reading = meter.read();
    let result = json!({
        "stage": "load",
        "result": {
            "records": sum.records, "accepted": sum.accepted.total(), "generated": sum.generated.total(),
            "skipped": sum.skipped, "rejected": rejected, "rejected_by_code": sum.rejected,
            "rejects": rejects, "accepted_now": reading.accepted, "left_out_now": outcome.left_out,
            "passed_over_now": outcome.passed_over,
            "seconds": reading.seconds, "broken": outcome.broken,
            "stopped": outcome.stop.as_ref().map(|stop| &stop.code),
        },
    });
    crate::print_json(&result.to_string());
}

fn tell(stage: &Load, outcome: &Outcome, meter: &Meter, given: &Given) {
    let sum = &outcome.progress.sum;
    let rejected: u64 = sum.rejected.values().sum();
    let reading = meter.read();
    if sum.records == 0 && outcome.stop.is_some() {
        // Why is all there is to say.
        return;
    }
    let generated = match sum.generated.total() {
        0 => String::new(),
        count => format!(" (and {count} that the mapping made of them)"),
    };
    crate::print(&format!(
        "{}: {} accepted{generated}, {} skipped, {} rejected. This time {} in {:.1} s.",
        counted(sum.records, "record"),
        counted(sum.accepted.total(), "event"),
        counted(sum.skipped, "record"),
        counted(rejected, "record"),
        counted(reading.accepted, "event"),
        reading.seconds,
    ));
    if outcome.left_out > 0 {
        crate::print(&format!(
            "Left out, as a resend brought them in before: {}.",
            counted(outcome.left_out, "record")
        ));
    }
    for line in &outcome.passed_over {
        crate::print(&format!(
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
        crate::print(&where_they_are(&folder, rejected, given));
    }
    if is_over {
        crate::print(&format!(
            "Compare with what is stored:\n  {}",
            given.command("import reconcile", &["rejects", "restart", "json"])
        ));
    }
}

fn judge(outcome: &Outcome, given: &Given) -> anyhow::Result<()> {
    if let Some(stop) = &outcome.stop {
        if stop.code == VOLUME_EXCEEDED {
            bail!(
                "the import stopped ({}): {}\nThe operator approves more with:\n  {} --team-id TEAM_ID --total-events N \
                 --events-per-minute N\nThen go on where it stopped with:\n  {}",
                stop.code,
                stop.message,
                given.command("migrations approve", &[]),
                given.command("import load", &["restart"])
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
            "{} could not be read to the end; what was read is imported. Mend what is wrong and run the same \
             command again:\n{}",
            counted(list.len() as u64, "file"),
            list.join("\n")
        );
    }
    Ok(())
}
