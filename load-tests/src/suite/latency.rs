//! Latency at half of the highest rate, counted from when a request was due, compared with the bare
//! disk.
//!
//! Events are shipped meanwhile: an engine runs beside the server, on CPUs of its own where there
//! are enough.

use super::bare::append_and_sync;
use super::bench::Bench;
use super::disk::logged;
use super::engine::Engine;
use super::figure::{FigureName, Quantity, Unit};
use super::findings::{Cell, Findings};
use super::outcome::{Line, Plot};
use super::rounds::Rounds;
use super::server::Contestant;
use super::store::Store;
use crate::digits::grouped;
use crate::plan::Mode;
use crate::summary::Percentiles;
use anyhow::Result;
use std::time::Duration;

/// Number of connections, enough for one to be free during a long sync.
const CONNECTIONS: u16 = 64;
/// Shortest warm-up. Rows wait up to a second before they are shipped, and shipping must go on
/// during the window.
const WARM_UP_MIN: Duration = Duration::from_millis(1_500);

type Quantile = (&'static str, f64, fn(&Percentiles) -> f64);

/// Name of a quantile, one part in so many, and its value.
const QUANTILES: [Quantile; 6] = [
    ("p50", 2.0, |p| p.p50_us),
    ("p90", 10.0, |p| p.p90_us),
    ("p99", 100.0, |p| p.p99_us),
    ("p99.9", 1_000.0, |p| p.p999_us),
    ("p99.99", 10_000.0, |p| p.p9999_us),
    ("max", f64::NAN, |p| p.max_us),
];

struct LatencyRound {
    ours: Percentiles,
    bare: Percentiles,
    frame_bytes: f64,
    /// Number of events stored in ClickHouse during the run, and of their inserts.
    shipped: f64,
    inserts: f64,
}

/// Rounds with one store.
struct StoreRounds {
    store: Store,
    events_per_second: f64,
    rounds: Rounds<LatencyRound>,
}

/// Measures the server and the bare loop in turn, with both stores.
///
/// # Errors
/// A server or the engine does not start, a run fails, or the disk refuses.
pub fn measure(bench: &mut Bench<'_>) -> Result<Findings> {
    let engine = Engine::start(bench, &bench.cpus.split_with_engine(1).engine)?;
    let memory = rounds(bench, &engine, Store::Memory)?;
    let disk = rounds(bench, &engine, Store::Disk)?;
    Ok(findings(&memory, &disk))
}

fn findings(memory: &StoreRounds, disk: &StoreRounds) -> Findings {
    let mut findings = Findings::with_columns(&[
        "ms",
        "Millrace, memory",
        "Millrace, disk",
        "bare append + fdatasync, disk",
        "disk ÷ bare",
    ]);
    let mut lines = [
        "Millrace, memory",
        "Millrace, disk",
        "bare append + fdatasync, disk",
    ]
    .map(|name| Line::new(name, Vec::new()));
    for (name, one_in, at) in QUANTILES {
        let in_memory_ms = memory.rounds.median(|it| at(&it.ours) / 1000.0);
        let on_disk_ms = disk.rounds.median(|it| at(&it.ours) / 1000.0);
        let bare_ms = disk.rounds.median(|it| at(&it.bare) / 1000.0);
        let of_bare = disk.rounds.median(|it| at(&it.ours) / at(&it.bare));
        findings.row([
            name.into(),
            Cell::Decimals(in_memory_ms, 3),
            Cell::Decimals(on_disk_ms, 3),
            Cell::Decimals(bare_ms, 3),
            Cell::Ratio(of_bare),
        ]);
        let quantile = Quantity::Quantile(name);
        let in_memory = FigureName::with_quantity("memory", quantile, Unit::Milliseconds);
        findings.figure(in_memory, in_memory_ms);
        let ratio = FigureName::with_quantity("disk ÷ bare", quantile, Unit::Ratio);
        findings.figure(ratio, of_bare);
        if one_in.is_finite() {
            for (line, y) in lines.iter_mut().zip([in_memory_ms, on_disk_ms, bare_ms]) {
                line.points.push((one_in, y));
            }
        }
    }
    for of_store in [memory, disk] {
        findings.note(of_store.note());
    }
    findings.plot = Some(Plot::logarithmic(
        "one request in so many is slower",
        "milliseconds",
        lines.into(),
    ));
    findings
}

impl StoreRounds {
    fn note(&self) -> String {
        let rounds = self.rounds.all().iter();
        let shipped: f64 = rounds.clone().map(|it| it.shipped).sum();
        let inserts: f64 = rounds.map(|it| it.inserts).sum();
        format!(
            "{}: {} events/s due in requests of 250, {CONNECTIONS} connections, {} bytes a sync; \
             meanwhile {} events went into ClickHouse in {} inserts.",
            self.store.name(),
            grouped(self.events_per_second),
            grouped(self.rounds.median(|it| it.frame_bytes)),
            grouped(shipped),
            grouped(inserts)
        )
    }
}

fn rounds(bench: &mut Bench<'_>, engine: &Engine, store: Store) -> Result<StoreRounds> {
    let contestant = Contestant::Ours { workers: 1, store };
    let highest = {
        let (server, plan) = engine.server(bench, contestant)?;
        let summary = bench.run(&plan)?;
        drop(server);
        engine.empty()?;
        summary.events_per_second
    };
    let events_per_second = highest / 2.0;
    let rounds = bench.rounds(&format!("{}, ", store.name()), |bench| {
        let round = once(bench, engine, store, events_per_second)?;
        Ok((round, String::new()))
    })?;
    Ok(StoreRounds {
        store,
        events_per_second,
        rounds,
    })
}

fn once(
    bench: &Bench<'_>,
    engine: &Engine,
    store: Store,
    events_per_second: f64,
) -> Result<LatencyRound> {
    let contestant = Contestant::Ours { workers: 1, store };
    let (server, mut plan) = engine.server(bench, contestant)?;
    plan.connections = CONNECTIONS;
    plan.warm_up = plan.warm_up.max(WARM_UP_MIN);
    plan.mode = Mode::Open {
        events_per_second: events_per_second.max(1.0),
    };
    let run = logged(bench, &server, &plan)?;
    let shipped = server.metric("millrace_insert_rows_total")?;
    let inserts = server.metric("millrace_inserts_total")?;
    drop(server);
    engine.empty()?;
    let frame_bytes = run.frame_bytes as usize;
    let bare = append_and_sync(bench, store, frame_bytes, bench.effort.window)?;
    Ok(LatencyRound {
        ours: run.summary.latency,
        bare: bare.latency,
        frame_bytes: run.frame_bytes,
        shipped,
        inserts,
    })
}
