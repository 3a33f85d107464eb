//! Latency at half of the highest rate, from when a request was due, beside the bare disk.

use super::bare::append_and_sync;
use super::bench::Bench;
use super::cases::BATCHES;
use super::disk::logged;
use super::outcome::{Line, Outcome, Plot, median, ratio};
use super::server::{Contestant, Server, Store};
use crate::plan::Mode;
use crate::report::grouped;
use crate::summary::Percentiles;
use anyhow::Result;

/// Enough that none is missing while a sync takes long.
const CONNECTIONS: u16 = 64;

type Quantile = (&'static str, f64, fn(&Percentiles) -> f64);

/// Name, one part in so many, and where it is.
const QUANTILES: [Quantile; 6] = [
    ("p50", 2.0, |p| p.p50_us),
    ("p90", 10.0, |p| p.p90_us),
    ("p99", 100.0, |p| p.p99_us),
    ("p99.9", 1_000.0, |p| p.p999_us),
    ("p99.99", 10_000.0, |p| p.p9999_us),
    ("max", f64::NAN, |p| p.max_us),
];

/// Rounds of one store.
struct Rounds {
    store: &'static str,
    events_per_second: f64,
    frame_bytes: f64,
    ours: Vec<Percentiles>,
    bare: Vec<Percentiles>,
}

/// Both stores, ours and the bare loop in turn.
///
/// # Errors
/// A server does not start, a run fails, or the disk refuses.
pub fn measure(bench: &mut Bench<'_>) -> Result<Outcome> {
    let memory = rounds(bench, Store::Memory, "memory")?;
    let disk = rounds(bench, Store::Disk, "disk")?;
    let mut outcome = Outcome::with_columns(&[
        "ms",
        "Millrace, memory",
        "Millrace, disk",
        "bare append + fdatasync, disk",
        "disk ÷ bare",
    ]);
    let mut lines = [&memory, &disk].map(|rounds| Line {
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
    for rounds in [&memory, &disk] {
        outcome.notes.push(format!(
            "{}: {} events/s due in requests of 250, {CONNECTIONS} connections, {} bytes a sync.",
            rounds.store,
            grouped(rounds.events_per_second),
            grouped(rounds.frame_bytes)
        ));
    }
    outcome.plot = Some(Plot {
        x: "one request in so many is slower".to_owned(),
        y: "milliseconds".to_owned(),
        log_scale: true,
        lines: lines.into_iter().chain([bare_line]).collect(),
    });
    Ok(outcome)
}

fn rounds(bench: &mut Bench<'_>, store: Store, name: &'static str) -> Result<Rounds> {
    let contestant = Contestant::Ours { workers: 1, store };
    let highest = {
        let server = Server::start(bench, contestant)?;
        let mut plan = bench.plan(&server, contestant.cpus());
        BATCHES.apply(&mut plan);
        bench.run(&plan)?.events_per_second
    };
    let mut rounds = Rounds {
        store: name,
        events_per_second: highest / 2.0,
        frame_bytes: f64::NAN,
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
        let server = Server::start(bench, contestant)?;
        let mut plan = bench.plan(&server, contestant.cpus());
        BATCHES.apply(&mut plan);
        plan.connections = CONNECTIONS;
        plan.mode = Mode::Open {
            events_per_second: rounds.events_per_second.max(1.0),
        };
        let run = logged(bench, &server, &plan)?;
        drop(server);
        rounds.ours.push(run.summary.latency);
        let bare = append_and_sync(bench, store, run.frame_bytes as usize, bench.effort.window)?;
        rounds.bare.push(bare.latency);
        frames.push(run.frame_bytes);
    }
    rounds.frame_bytes = median(&frames);
    Ok(rounds)
}
