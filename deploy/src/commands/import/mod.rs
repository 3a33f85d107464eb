//! `millrace import`: imports past events from other tools and files into a running server, in
//! stages that can be repeated one by one.
//!
//! | Module | Holds |
//! |---|---|
//! | `fetch` | downloads exports into the staging folder |
//! | `check` | the dry run |
//! | `load` | sends events to the server |
//! | `reconcile` | compares accepted events with stored ones |
//! | `report` | compares imports with each other |
//! | `options` | options that stages share |
//! | `rejects_file` | messages on rejected records, for `load` and `reconcile` |

mod check;
mod fetch;
mod load;
mod options;
mod reconcile;
mod rejects_file;
mod report;

use crate::commands::Invocation;
use crate::config::Config;
use clap::Subcommand;

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
    Report(report::Arguments),
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
        Command::Report(arguments) => report::run(arguments),
    }
}
