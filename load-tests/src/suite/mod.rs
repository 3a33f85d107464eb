//! Everything that is claimed of the server's speed, measured in one go.
//!
//! The suite starts servers as child processes, each on CPUs of its own, and runs ours and the
//! yardsticks in turn, in rounds: a machine that is slow for a while is slow for all of them.
//!
//! - [`cases`]: what is measured, as a table.
//! - [`bench`](mod@bench): how long, where and on which CPUs; one run of the generator.
//! - [`server`], [`engine`]: the children, and [`listener`]: what they share.
//! - [`throughput`], [`disk`], [`latency`], [`shipping`], [`visible`], [`overload`],
//!   [`flood`], [`neighbour`], [`memory`], [`soak`], [`growth`]: one kind of case each.
//! - [`exports`]: rows out of the engine, by the [`exporter`].
//! - [`bare`]: the disk without us: append and fdatasync.
//! - [`inserts`]: the engine without us, by inserts that the [`proxy`](crate::proxy) has recorded.
//! - [`course`]: how many rows could be queried by when.
//! - [`projects`]: a catalog with many of them.
//! - [`outcome`]: what a case gave: a table, figures, a plot.
//! - [`criterion`]: what the benches of single steps gave, for the same page.
//! - [`kept`]: what other cases gave before.
//! - [`results`], [`plot`], [`history`], [`machine`]: what is written of it.

pub mod bare;
pub mod bench;
pub mod cases;
pub mod course;
pub mod criterion;
pub mod disk;
pub mod engine;
pub mod exporter;
pub mod exports;
pub mod flood;
pub mod growth;
pub mod history;
pub mod inserts;
pub mod kept;
pub mod latency;
pub mod listener;
pub mod machine;
pub mod memory;
pub mod neighbour;
pub mod outcome;
pub mod overload;
pub mod plot;
pub mod projects;
pub mod results;
pub mod server;
pub mod shipping;
pub mod soak;
pub mod throughput;
pub mod visible;

use crate::clickhouse::ClickHouse;
use crate::run::Stop;
use anyhow::{Context, Result, ensure};
use bench::Bench;
use cases::CASES;
use machine::Machine;
use outcome::Outcome;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// What the suite is to do, and with what.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's program.
    pub server: PathBuf,
    /// This program, which is also the yardsticks.
    pub load: PathBuf,
    /// A folder in memory; about 8 GiB of it are used at a time.
    pub memory_dir: PathBuf,
    /// A folder on the disk that is to be measured.
    pub disk_dir: PathBuf,
    /// Where plots and JSON go.
    pub out: PathBuf,
    /// The page of results.
    pub results: PathBuf,
    /// The file that gets a line per run.
    pub history: PathBuf,
    /// A second or less for each figure, to see whether all works.
    pub quick: bool,
    /// How long the soak takes instead.
    pub soak: Option<Duration>,
    /// Only the cases with these names; empty: all.
    pub only: Vec<String>,
    /// criterion's folder, to have its results on the page as well.
    pub criterion: Option<PathBuf>,
    /// Where all servers ship to. By default nowhere, but for the cases that need an engine: they
    /// start the embedded one.
    pub clickhouse: Option<ClickHouse>,
    /// What was typed, for the page of results.
    pub command: String,
}

/// A run of the suite.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Where and when.
    pub machine: Machine,
    /// What was typed.
    pub command: String,
    /// Whether it was a short run.
    pub quick: bool,
    /// What each case gave, in the order of the cases.
    pub outcomes: Vec<Outcome>,
}

/// Runs the cases and writes what they gave. `say` is told what is going on.
///
/// # Errors
/// A server does not start, a run fails, or a file cannot be written. What was measured before is
/// then lost: half a page of results would look like a whole one.
pub fn suite(options: &Options, stop: &Stop, say: &mut dyn FnMut(&str)) -> Result<Report> {
    for name in &options.only {
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        ensure!(
            names.contains(&name.as_str()),
            "there is no case {name:?}; there are: {}",
            names.join(", ")
        );
    }
    let machine = Machine::read()?;
    let mut bench = Bench::new(options, stop, say)?;
    let mut outcomes = Vec::new();
    for case in CASES {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == case.name) {
            continue;
        }
        bench.say(&format!("{}: {}", case.name, case.title));
        let outcome = case.run(&mut bench).with_context(|| case.name.to_owned())?;
        bench.say(&outcome.text());
        outcomes.push(outcome);
    }
    if let Some(dir) = &options.criterion {
        outcomes.extend(criterion::read(dir)?);
    }
    let mut report = Report {
        machine,
        command: options.command.clone(),
        quick: options.quick,
        outcomes,
    };
    if !options.only.is_empty() {
        kept::keep_others(&mut report, &options.out)?;
    }
    results::write(options, &report)?;
    Ok(report)
}
