//! Cost of shipping: CPU time of our threads per event, while a load at a steady rate goes into a
//! real engine.
//!
//! Threads are identified by name. Their time is taken from before the load until all events are in
//! ClickHouse, so that nothing is left out at either end.

use super::bench::Bench;
use super::engine::Engine;
use super::figure::{FigureName, Quantity, Unit};
use super::findings::{Cell, Findings};
use super::rounds::Rounds;
use super::server::Contestant;
use super::store::Store;
use crate::digits::grouped;
use crate::plan::Mode;
use crate::threads::Threads;
use anyhow::Result;
use std::collections::BTreeMap;

/// Rate of the load; well below the capacity of one core with shipping, so that nothing waits.
const EVENTS_PER_SECOND: f64 = 100_000.0;

/// Roles with the names of their threads; the last role takes all other threads.
const ROLES: [(&str, &[&str]); 4] = [
    ("shipping", &["background"]),
    ("requests", &["ingest"]),
    ("log", &["commit-live", "commit-historical"]),
    ("the rest", &[]),
];

/// CPU time per event in microseconds, by role.
type Cost = [f64; ROLES.len()];

/// Measures rounds with the log in memory and on disk.
///
/// # Errors
/// A server or the engine does not start, a run fails, or something is not shipped.
pub fn measure(bench: &mut Bench<'_>) -> Result<Findings> {
    let engine = Engine::start(bench, &bench.cpus.split_with_engine(1).engine)?;
    let mut columns = vec!["CPU µs an event"];
    columns.extend(ROLES.map(|(role, _)| role));
    columns.extend(["events", "rows an insert"]);
    let mut findings = Findings::with_columns(&columns);
    for store in [Store::Memory, Store::Disk] {
        let label = format!("{}, ", store.name());
        let rounds = bench.rounds(&label, |bench| {
            let round = once(bench, &engine, store)?;
            engine.empty()?;
            Ok((round, String::new()))
        })?;
        add(&mut findings, store, &rounds);
    }
    findings.note(format!(
        "250 events of 998 B a request, {} events/s due, one worker.",
        grouped(EVENTS_PER_SECOND)
    ));
    Ok(findings)
}

struct ShippingRound {
    cost: Cost,
    events: f64,
    inserts: f64,
}

fn once(bench: &Bench<'_>, engine: &Engine, store: Store) -> Result<ShippingRound> {
    let contestant = Contestant::Ours { workers: 1, store };
    let (server, mut plan) = engine.server(bench, contestant)?;
    plan.mode = Mode::Open {
        events_per_second: EVENTS_PER_SECOND,
    };
    let before = Threads::of(server.pid())?;
    let summary = bench.run(&plan)?;
    server.wait_until_shipped(bench, summary.run.acknowledged_events)?;
    let used = Threads::of(server.pid())?.since(&before);
    let events = server.metric("millrace_insert_rows_total")?;
    Ok(ShippingRound {
        cost: cost(&used, events),
        events,
        inserts: server.metric("millrace_inserts_total")?,
    })
}

fn cost(used: &BTreeMap<String, f64>, events: f64) -> Cost {
    let is_of = |name: &str, names: &[&str]| names.contains(&name);
    let is_known = |name: &str| ROLES.iter().any(|(_, names)| is_of(name, names));
    ROLES.map(|(_, names)| {
        let of_role = used.iter().filter(|(name, _)| match names {
            [] => !is_known(name),
            names => is_of(name, names),
        });
        of_role.map(|(_, seconds)| seconds).sum::<f64>() * 1e6 / events
    })
}

fn add(findings: &mut Findings, store: Store, rounds: &Rounds<ShippingRound>) {
    let mut row = vec![Cell::from(format!("log {}", store.place()))];
    for (at, (role, _)) in ROLES.into_iter().enumerate() {
        let cost = rounds.median(|round| round.cost.get(at).copied().unwrap_or(f64::NAN));
        row.push(Cell::Decimals(cost, 3));
        let role = Quantity::CpuTime(role);
        let name = FigureName::with_quantity(store.name(), role, Unit::Microseconds);
        findings.figure(name, cost);
    }
    row.push(Cell::Grouped(rounds.median(|round| round.events)));
    let rows_per_insert = rounds.median(|round| round.events / round.inserts);
    row.push(Cell::Grouped(rows_per_insert));
    findings.rows.push(row);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_counts_for_one_role() {
        let used = [
            ("background", 1.0),
            ("ingest", 2.0),
            ("commit-live", 3.0),
            ("commit-historical", 4.0),
            ("health", 5.0),
            ("millrace", 6.0),
        ];
        let used = used.map(|(name, seconds)| (name.to_owned(), seconds));
        assert_eq!(cost(&used.into(), 1e6), [1.0, 2.0, 7.0, 11.0]);
    }
}
