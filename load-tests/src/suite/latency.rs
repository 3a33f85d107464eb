//! Latency at half of the highest rate, counted from when a request was due, compared with the bare
//! disk.
//!
//! Events are shipped meanwhile: an engine runs beside the server, on CPUs of its own where there
//! are enough.

use super::bare::append_and_sync;
use super::bench::Bench;
use super::disk::logged;
use super::engine::Engine;
use super::outcome::{Line, Outcome, Plot, median, ratio};
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

/// Rounds with one store.
struct Rounds {
    store: &'static str,
    events_per_second: f64,
    frame_bytes: f64,
    /// Number of events stored in ClickHouse during the runs, and of their inserts.
    shipped: f64,
    inserts: f64,
    ours: Vec<Percentiles>,
    bare: Vec<Percentiles>,
}

/// Measures the server and the bare loop in turn, with both stores.
///
/// # Errors
/// A server or the engine does not start, a run fails, or the disk refuses.
pub fn measure(bench: &mut Bench<'_>) -> Result<Outcome> {
    let engine = Engine::start(bench, &bench.cpus.split_with_engine(1).engine)?;
    let memory = rounds(bench, &engine, Store::Memory, "memory")?;
    let disk = rounds(bench, &engine, Store::Disk, "disk")?;
    Ok(outcome(&memory, &disk))
}

fn outcome(memory: &Rounds, disk: &Rounds) -> Outcome {
    let mut outcome = Outcome::with_columns(&[
        "ms",
        "Millrace, memory",
        "Millrace, disk",
        "bare append + fdatasync, disk",
        "disk ÷ bare",
    ]);
    let mut lines = [memory, disk].map(|rounds| Line {
        name: format!("Millrace, {}", rounds.store),
        points: Vec::new(),
    });
    let mut bare_line = Line {
        name: "bare append + fdatasync, disk".to_owned(),
        points: Vec::new(),
    };
    for (name, one_in, at) in QUANTILES {
        let middle = |rounds: &[Percentiles]| {
            let each: Vec<_> = rounds.iter().map(|round| at(round) / 1000.0).collect();
            median(&each)
        };
        let of_each: Vec<_> = disk
            .ours
            .iter()
            .zip(&disk.bare)
            .map(|(a, b)| at(a) / at(b))
            .collect();
        let (in_memory, on_disk, bare) =
            (middle(&memory.ours), middle(&disk.ours), middle(&disk.bare));
        outcome.row([
            name.to_owned(),
            format!("{in_memory:.3}"),
            format!("{on_disk:.3}"),
            format!("{bare:.3}"),
            ratio(median(&of_each), 1.0),
        ]);
        outcome.figure(&format!("memory: {name}_ms"), in_memory);
        outcome.figure(&format!("disk ÷ bare: {name}_ratio"), median(&of_each));
        if one_in.is_finite() {
            for (line, y) in lines
                .iter_mut()
                .chain([&mut bare_line])
                .zip([in_memory, on_disk, bare])
            {
                line.points.push((one_in, y));
            }
        }
    }
    for rounds in [memory, disk] {
        outcome.notes.push(format!(
            "{}: {} events/s due in requests of 250, {CONNECTIONS} connections, {} bytes a sync; \
             meanwhile {} events went into ClickHouse in {} inserts.",
            rounds.store,
            grouped(rounds.events_per_second),
            grouped(rounds.frame_bytes),
            grouped(rounds.shipped),
            grouped(rounds.inserts)
        ));
    }
    outcome.plot = Some(Plot {
        x: "one request in so many is slower".to_owned(),
        y: "milliseconds".to_owned(),
        log_scale: true,
        lines: lines.into_iter().chain([bare_line]).collect(),
    });
    outcome
}

fn rounds(
    bench: &mut Bench<'_>,
    engine: &Engine,
    store: Store,
    name: &'static str,
) -> Result<Rounds> {
    let contestant = Contestant::Ours { workers: 1, store };
    let highest = {
        let (server, plan) = engine.server(bench, contestant)?;
        let summary = bench.run(&plan)?;
        drop(server);
        engine.empty()?;
        summary.events_per_second
    };
    let mut rounds = Rounds {
        store: name,
        events_per_second: highest / 2.0,
        frame_bytes: f64::NAN,
        shipped: 0.0,
        inserts: 0.0,
        ours: Vec::new(),
        bare: Vec::new(),
    };
    let mut frames = Vec::new();
    for round in 0..bench.effort.rounds {
        bench.say(&format!(
            "  {name}, round {} of {}",
            round + 1,
            bench.effort.rounds
        ));
        let (server, mut plan) = engine.server(bench, contestant)?;
        plan.connections = CONNECTIONS;
        plan.warm_up = plan.warm_up.max(WARM_UP_MIN);
        plan.mode = Mode::Open {
            events_per_second: rounds.events_per_second.max(1.0),
        };
        let run = logged(bench, &server, &plan)?;
        rounds.shipped += server.metric("millrace_insert_rows_total")?;
        rounds.inserts += server.metric("millrace_inserts_total")?;
        drop(server);
        engine.empty()?;
        rounds.ours.push(run.summary.latency);
        let bare = append_and_sync(bench, store, run.frame_bytes as usize, bench.effort.window)?;
        rounds.bare.push(bare.latency);
        frames.push(run.frame_bytes);
    }
    rounds.frame_bytes = median(&frames);
    Ok(rounds)
}
