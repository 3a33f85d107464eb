//! Time from the first request until events can be queried, compared with the engine's own speed.
//!
//! A number of events is sent as fast as they are accepted, and followed until they can be queried.
//! Server and engine share the same CPUs, so the measured rate could go on for ever. The bare loop
//! has the engine to itself, on the same CPUs.

use super::bench::Bench;
use super::engine::Engine;
use super::figure::{FigureName, Quantity, Unit};
use super::findings::{Cell, Findings};
use super::inserts::Inserts;
use super::load::{BATCHES, Load};
use super::outcome::{Line, Plot};
use super::rounds::Rounds;
use super::row_curve::RowCurve;
use super::server::{Contestant, Server, ServerOptions};
use super::store::Store;
use crate::digits::grouped;
use crate::plan::Plan;
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

/// Number of CPUs, and of workers; the product's goal is stated for it.
const CPUS: usize = 2;
const LOAD: Load = Load {
    connections: 32,
    ..BATCHES
};
/// Interval at which the engine's rows are counted.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Longest time without further rows.
const VISIBLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Curves of one round.
struct VisibilityRound {
    ours: RowCurve,
    bare: RowCurve,
}

/// Rounds with one store.
struct StoreRounds {
    store: Store,
    rows_per_insert: f64,
    rounds: Rounds<VisibilityRound>,
}

/// Measures the server and the bare loop in turn, with both stores.
///
/// # Errors
/// A server or the engine does not start, a run fails, or something is not shipped.
pub fn measure(bench: &mut Bench<'_>) -> Result<Findings> {
    let engine = Engine::start(bench, &bench.cpus.server(CPUS))?;
    let memory = rounds(bench, &engine, Store::Memory)?;
    let disk = rounds(bench, &engine, Store::Disk)?;
    let mut findings = Findings::with_columns(&[
        "",
        "rows/s that can be queried",
        "Millrace ÷ this, median of rounds",
        "rows an insert",
    ]);
    let mut lines = Vec::new();
    for rounds in [memory, disk] {
        rounds.add_to(&mut findings);
        lines.extend(rounds.lines());
    }
    findings.note(format!(
        "{} events, 250 of 998 B a request, as fast as they are taken; Millrace with {CPUS} \
         workers and the engine on the same {CPUS} CPUs. The bare loop sends the engine the blocks \
         that Millrace sends, by the same statement.",
        grouped(bench.effort.shipped_events as f64)
    ));
    findings.plot = Some(Plot::linear(
        "seconds",
        "thousands of rows that can be queried",
        lines,
    ));
    Ok(findings)
}

fn rounds(bench: &mut Bench<'_>, engine: &Engine, store: Store) -> Result<StoreRounds> {
    let place = store.place();
    let contestant = Contestant::Ours {
        workers: CPUS,
        store,
    };
    bench.say(&format!("  log {place}: recording inserts"));
    let inserts = Inserts::record(bench, engine, contestant, LOAD)?;
    let rounds = bench.rounds(&format!("log {place}, "), |bench| {
        let ours = ours(bench, engine, contestant)?;
        engine.empty()?;
        let bare = inserts.send(bench, engine, contestant, bench.effort.shipped_events)?;
        let said = format!(
            ": {} rows/s, bare {}",
            grouped(ours.rows_per_second()),
            grouped(bare.rows_per_second())
        );
        Ok((VisibilityRound { ours, bare }, said))
    })?;
    Ok(StoreRounds {
        store,
        rows_per_insert: inserts.rows_mean(),
        rounds,
    })
}

fn ours(bench: &Bench<'_>, engine: &Engine, contestant: Contestant) -> Result<RowCurve> {
    let options = ServerOptions {
        clickhouse: Some(engine.clickhouse()),
        ..ServerOptions::default()
    };
    let server = Server::start_with(bench, contestant, options)?;
    let mut plan = bench.plan(&server, contestant.cpus());
    LOAD.apply(&mut plan);
    follow(bench, engine, &plan)
}

/// Sends the number of events to be followed, and waits until they can be queried.
///
/// # Errors
/// The run fails, or events do not arrive.
pub fn follow(bench: &Bench<'_>, engine: &Engine, plan: &Plan) -> Result<RowCurve> {
    let requests = bench.effort.shipped_events / u64::from(plan.batch_events);
    let plan = plan.clone().with_requests(requests);
    let there = engine.rows("events")?;
    let mut curve = RowCurve::new();
    let mut started = None;
    let mut looked = Instant::now();
    let summary = bench.run_observed(&plan, &mut |progress| {
        let now = Instant::now();
        let started = *started.get_or_insert(now.checked_sub(progress.elapsed).unwrap_or(now));
        if now.duration_since(looked) < LOOK_AGAIN {
            return;
        }
        looked = now;
        // An engine that never responds shows when the run is over.
        if let Ok(rows) = engine.rows("events") {
            curve.note(started.elapsed().as_secs_f64(), rows.saturating_sub(there));
        }
    })?;
    let started = started.unwrap_or(looked);
    let events = summary.run.acknowledged_events;
    let mut arrived = Instant::now();
    loop {
        bench.check()?;
        let rows = engine.rows("events")?.saturating_sub(there);
        if rows as f64 > curve.rows() {
            arrived = Instant::now();
        }
        curve.note(started.elapsed().as_secs_f64(), rows);
        if rows >= events {
            return Ok(curve);
        }
        ensure!(
            arrived.elapsed() < VISIBLE_TIMEOUT,
            "only {rows} of {events} acknowledged events can be queried"
        );
        std::thread::sleep(LOOK_AGAIN);
    }
}

impl StoreRounds {
    fn add_to(&self, findings: &mut Findings) {
        let ours = self.rounds.median(|it| it.ours.rows_per_second());
        let bare = self.rounds.median(|it| it.bare.rows_per_second());
        let of_bare = |it: &VisibilityRound| it.ours.rows_per_second() / it.bare.rows_per_second();
        let of_bare = self.rounds.median(of_bare);
        let (name, place) = (self.store.name(), self.store.place());
        for (contestant, rate, ratio) in [
            ("Millrace", ours, 1.0),
            ("bare loop of its inserts", bare, of_bare),
        ] {
            findings.row([
                format!("{contestant}, log {place}").into(),
                Cell::Grouped(rate),
                Cell::Ratio(ratio),
                Cell::Grouped(self.rows_per_insert),
            ]);
        }
        for (rows, rate) in [("visible", ours), ("bare", bare)] {
            let rows = Quantity::Rows(rows);
            let name = FigureName::with_quantity(name, rows, Unit::RowsPerSecond);
            findings.figure(name, rate);
        }
        let name = FigureName::new(format!("{name}: of the bare loop"), Unit::Ratio);
        findings.figure(name, of_bare);
    }

    /// Curves of the last round.
    fn lines(&self) -> Vec<Line> {
        let line = |name: &str, of: fn(&VisibilityRound) -> &RowCurve| {
            let last = self.rounds.last().map(of);
            Line::new(
                format!("{name}, log {}", self.store.place()),
                last.map(RowCurve::points).unwrap_or_default(),
            )
        };
        vec![
            line("Millrace", |it| &it.ours),
            line("bare loop", |it| &it.bare),
        ]
    }
}
