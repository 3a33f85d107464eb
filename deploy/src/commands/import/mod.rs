//! `millrace import`: imports past events from other tools and files into a running server, in
//! stages that can be repeated one by one.
//!
//! | Module | Holds |
//! |---|---|
//! | `fetch` | downloads exports into the staging folder |
//! | `check` | the dry run |
//! | `load` | sends events to the server |
//! | `reconcile` | compares accepted events with stored ones |
//! | `rejects` | messages on rejected records, for `load` and `reconcile` |

mod check;
mod fetch;
mod load;
mod reconcile;
mod rejects;

use load::TargetArguments;

use crate::commands::Invocation;
use crate::config::Config;
use clap::{Args, Subcommand};
use millrace_import::files::{SourceFile, find};
use millrace_import::plan::Plan;
use millrace_import::progress::Audience;
use millrace_import::staging::Staging;
use std::path::PathBuf;

/// Stage of an import.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Download an export into the staging folder; run again, it resumes with the missing parts
    #[command(subcommand)]
    Fetch(fetch::Command),
    /// Check what an import would do without sending anything: counts, rejects, names, times, size
    Check(check::Arguments),
    /// Send events to a server, as fast as it accepts them; run again, it resumes where it stopped
    Load(load::Arguments),
    /// Compare loaded events with those in ClickHouse, by day and event; fails if they differ
    Reconcile(reconcile::Arguments),
    /// Compare the imports of a staging folder, such as a trial and the real one
    Report(reconcile::ReportArguments),
}

/// Options of every stage.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Folder that stages share; created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "millrace-import")]
    staging: PathBuf,
    /// Print progress and result as lines of JSON
    #[arg(long)]
    json: bool,
}

/// Options of a single run, which are left out of follow-up commands.
const SINGLE_RUN_OPTIONS: [&str; 5] = ["files", "rejects", "restart", "json", "wait"];

/// Files to import, and their mapping.
#[derive(Args, Clone, Debug)]
pub struct Sources {
    /// Files, folders, patterns such as 'exports/2024-*.json.gz', zip archives, or - for standard
    /// input; by default the files that `fetch` left in the staging folder
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    /// Format of the files: captured, mixpanel, amplitude...; by default detected for each file
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Mapping file: TOML that renames, drops, casts and sets fields
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
}

impl Common {
    fn open(&self) -> anyhow::Result<Staging> {
        Staging::open(&self.staging)
    }

    /// Opens the staging folder of an earlier stage.
    fn existing(&self) -> anyhow::Result<Staging> {
        if !self.staging.exists() {
            anyhow::bail!(
                "there is no folder {}; name that of `millrace import load` with --staging",
                self.staging.display()
            );
        }
        Staging::open(&self.staging)
    }

    fn audience(&self) -> Audience {
        if self.json {
            Audience::Machine
        } else {
            Audience::Person
        }
    }
}

impl Sources {
    fn plan(&self) -> anyhow::Result<Plan> {
        Plan::read(self.mapping.as_deref(), self.format.as_deref())
    }

    fn files(&self, staging: &Staging, invocation: &Invocation) -> anyhow::Result<Vec<SourceFile>> {
        let files = if self.files.is_empty() {
            let data = staging.data();
            if !data.exists() {
                anyhow::bail!(
                    "there is nothing to import: name files, or first get an export, which goes into {}:\n  {}",
                    data.display(),
                    invocation
                        .command("import fetch objects", &["json"])
                        .replacen("objects", "SOURCE", 1)
                );
            }
            find(&[data.to_string_lossy().into_owned()])?
        } else {
            find(&self.files)?
        };
        if files.is_empty() {
            anyhow::bail!("there is no file in {}", self.files.join(", "));
        }
        Ok(files)
    }
}

/// Runs a stage.
///
/// # Errors
/// When the stage cannot be completed, or its result is a failure.
pub fn run(config: &Config, command: &Command, invocation: &Invocation) -> anyhow::Result<()> {
    match command {
        Command::Fetch(command) => fetch::run(command, invocation),
        Command::Check(arguments) => check::run(arguments, invocation),
        Command::Load(arguments) => load::run(config, arguments, invocation),
        Command::Reconcile(arguments) => reconcile::run(config, arguments, invocation),
        Command::Report(arguments) => reconcile::report(arguments),
    }
}
