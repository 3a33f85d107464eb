//! `millrace import`: past events out of other tools and files into a running server, in stages that are each begun
//! anew alone.
//!
//! | Module | Holds |
//! |---|---|
//! | `fetch` | exports into staged files |
//! | `check` | the dry run |
//! | `load` | the stage that imports |
//! | `reconcile` | what was accepted against what is stored |
//! | `rejects` | words on what was refused, for the two |

mod check;
mod fetch;
mod load;
mod reconcile;
mod rejects;

use load::TargetArguments;

use crate::commands::Given;
use crate::config::Config;
use clap::{Args, Subcommand};
use millrace_import::files::{SourceFile, find};
use millrace_import::plan::Plan;
use millrace_import::progress::Audience;
use millrace_import::staging::Staging;
use std::path::PathBuf;

/// The stages of an import.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Get an export and put it into the staging folder; run again, it goes on with what is missing
    #[command(subcommand)]
    Fetch(fetch::Command),
    /// Look what an import would do and send nothing: counts, rejects, names, times, size
    Check(check::Arguments),
    /// Send events to a server, as fast as it takes them; run again, it goes on where it stopped
    Load(load::Arguments),
    /// Compare what was loaded with what ClickHouse has, by day and event; fails when they differ
    Reconcile(reconcile::Arguments),
    /// Show the imports of a staging folder beside one another, such as a trial and the real one
    Report(reconcile::ReportArguments),
}

/// What every stage has.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// The folder that keeps what stages leave for one another; made when it is not there
    #[arg(long, value_name = "DIR", default_value = "millrace-import")]
    staging: PathBuf,
    /// Print progress and result as lines of JSON
    #[arg(long)]
    json: bool,
}

/// Options of one run, which the next one has no use for.
const OF_THIS_RUN: [&str; 5] = ["files", "rejects", "restart", "json", "wait"];

/// Which files, and what is done with them.
#[derive(Args, Clone, Debug)]
pub struct Sources {
    /// Files, folders, patterns such as 'exports/2024-*.json.gz', zip archives, or - for standard input; without any,
    /// what `fetch` left in the staging folder
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    /// What the files are: captured, mixpanel, amplitude...; guessed for each without
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// A mapping file: TOML that renames, drops, casts and sets
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
}

impl Common {
    fn open(&self) -> anyhow::Result<Staging> {
        Staging::open(&self.staging)
    }

    /// The staging folder of stages that read what others left there.
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

    fn files(&self, staging: &Staging, given: &Given) -> anyhow::Result<Vec<SourceFile>> {
        let files = if self.files.is_empty() {
            let data = staging.data();
            if !data.exists() {
                anyhow::bail!(
                    "there is nothing to import: name files, or first get an export, which goes into {}:\n  {}",
                    data.display(),
                    given
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
/// When it cannot be run to its end, or its result is not as it should be.
pub fn run(config: &Config, command: &Command, given: &Given) -> anyhow::Result<()> {
    match command {
        Command::Fetch(command) => fetch::run(command, given),
        Command::Check(arguments) => check::run(arguments, given),
        Command::Load(arguments) => load::run(config, arguments, given),
        Command::Reconcile(arguments) => reconcile::run(config, arguments, given),
        Command::Report(arguments) => reconcile::report(arguments),
    }
}
