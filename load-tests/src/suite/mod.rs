//! Suite of measurements for every claim about the server's speed.
//!
//! The suite starts servers as child processes, each on CPUs of its own, and runs ours and the
//! baselines in turn, in rounds: a machine that is slow for a while is slow for all of them.
//!
//! - [`mod@options`]: options of a run.
//! - [`cases`]: the table of cases.
//! - [`bench`](mod@bench): times, folders and CPUs; one run of the generator.
//! - [`server`], [`engine`]: the child processes, and [`listener`]: their common part.
//! - [`load`], [`store`]: loads on a server, and storage of its log.
//! - [`throughput`], [`disk`], [`latency`], [`shipping`], [`visible`], [`overload`],
//!   [`flood`], [`neighbour`], [`memory`], [`soak`], [`growth`]: one kind of case each.
//! - [`exports`]: rows exported from the engine, by the [`exporter`].
//! - [`bare`]: the disk without the server: append and fdatasync.
//! - [`inserts`]: the engine without the server, by inserts that the [`proxy`](crate::proxy) has
//!   recorded.
//! - [`row_curve`]: the number of rows that can be queried over time.
//! - [`projects`]: a catalog with many projects.
//! - [`rounds`]: a measurement several times; [`findings`]: what a case found, as a table of typed
//!   cells, with [`figure`]s that have units.
//! - [`outcome`]: the result of a case and of a run, as it is kept; [`render`] makes it of
//!   findings, and writes it.
//! - [`criterion`]: results of the benches of single steps, for the same page.
//! - [`carry_over`]: previous results of the other cases.
//! - [`peers`]: results of other services, which `benches/peers` writes; [`peer_tables`] of them,
//!   and the [`opening`] of the page, with [`interval`]s and a picture of [`dots`].
//! - [`results`], [`page`], [`web_page`], [`plot`], [`svg_theme`], [`legend`], [`history`],
//!   [`machine`]: the files that are written.

pub mod bare;
pub mod bench;
pub mod carry_over;
pub mod cases;
pub mod criterion;
pub mod disk;
pub mod dots;
pub mod engine;
pub mod exporter;
pub mod exports;
pub mod figure;
pub mod findings;
pub mod flood;
pub mod growth;
pub mod history;
pub mod inserts;
pub mod interval;
pub mod latency;
pub mod legend;
pub mod listener;
pub mod load;
pub mod machine;
pub mod memory;
pub mod neighbour;
pub mod opening;
pub mod options;
pub mod outcome;
pub mod overload;
pub mod page;
pub mod peer_tables;
pub mod peers;
pub mod plot;
pub mod projects;
pub mod render;
pub mod results;
pub mod rounds;
pub mod row_curve;
pub mod server;
pub mod shipping;
pub mod soak;
pub mod store;
pub mod svg_theme;
pub mod throughput;
pub mod visible;
pub mod web_page;

pub use options::Options;
pub use outcome::Report;

use crate::stop::Stop;
use anyhow::{Context, Result, ensure};
use bench::Bench;
use cases::CASES;
use machine::Machine;

/// Runs the cases and writes their results. `say` gets the progress.
///
/// # Errors
/// A server does not start, a run fails, or a file cannot be written. Results measured before are
/// then lost: half a page would look like a whole one.
pub fn suite(options: &Options, stop: &Stop, say: &mut dyn FnMut(&str)) -> Result<Report> {
    for name in &options.only {
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        ensure!(
            names.contains(&name.as_str()),
            "there is no case {name:?}; there are: {}",
            names.join(", ")
        );
    }
    results::check_place(options)?;
    let machine = Machine::read()?;
    let mut bench = Bench::new(options, stop, say)?;
    let mut outcomes = Vec::new();
    for case in CASES {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == case.name) {
            continue;
        }
        bench.say(&format!("{}: {}", case.name, case.title));
        let measured = case.measure(&mut bench);
        let findings = measured.with_context(|| case.name.to_owned())?;
        let outcome = render::outcome(case.name, case.title, findings);
        bench.say(&render::text(&outcome));
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
        carry_over::carry_over(&mut report, &options.out)?;
    }
    results::write(options, &report)?;
    Ok(report)
}
