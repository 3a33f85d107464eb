//! Throughput of servers in a closed loop, side by side.

use super::bench::Bench;
use super::figure::{FigureName, Unit};
use super::findings::{Cell, Findings};
use super::load::Load;
use super::rounds::Rounds;
use super::server::{Contestant, Server};
use crate::digits::{counted, grouped};
use crate::plan::Compression;
use crate::summary::Summary;
use anyhow::Result;

/// Share of its CPUs that a server must use; otherwise the generator is the limit.
const BUSY: f64 = 0.9;

/// Runs each contestant once per round, in turn; the first is compared with the others.
///
/// # Errors
/// A server does not start or a run fails.
pub fn measure(bench: &mut Bench<'_>, load: Load, contestants: &[Contestant]) -> Result<Findings> {
    let mut runs: Vec<Rounds<Summary>> = vec![Rounds::new(); contestants.len()];
    for round in 0..bench.effort.rounds {
        for (contestant, runs) in contestants.iter().zip(&mut runs) {
            let summary = once(bench, load, *contestant)?;
            bench.say(&format!(
                "  round {} of {}: {:>12} events/s  {}",
                round + 1,
                bench.effort.rounds,
                grouped(summary.events_per_second),
                contestant.name()
            ));
            runs.push(summary);
        }
    }
    Ok(findings(load, contestants, &runs))
}

fn once(bench: &Bench<'_>, load: Load, contestant: Contestant) -> Result<Summary> {
    let server = Server::start(bench, contestant)?;
    let mut plan = bench.plan(&server, contestant.cpus());
    load.apply(&mut plan);
    bench.run(&plan)
}

fn events_per_second(run: &Summary) -> f64 {
    run.events_per_second
}

/// Events per second of the server's CPU time, which leaves out waiting and neighbours.
fn events_per_core_second(run: &Summary) -> f64 {
    run.server
        .map_or(f64::NAN, |load| load.events_per_core_second)
}

fn cores(run: &Summary) -> f64 {
    run.server.map_or(f64::NAN, |load| load.cores)
}

fn findings(load: Load, contestants: &[Contestant], runs: &[Rounds<Summary>]) -> Findings {
    let mut findings = Findings::with_columns(&[
        "Server",
        "events/s, median",
        "lowest to highest",
        "requests/s, median",
        "events per CPU s",
        "cores",
        "ours ÷ this, median of rounds",
        "of the best",
        "per CPU s",
    ]);
    let Some(ours) = runs.first() else {
        return findings;
    };
    for (contestant, runs) in contestants.iter().zip(runs) {
        let middle = runs.median(events_per_second);
        let best = runs.highest(events_per_second);
        findings.row([
            contestant.name().into(),
            Cell::Grouped(middle),
            runs.interval(events_per_second).range_text(grouped).into(),
            Cell::Grouped(middle / f64::from(load.batch_events)),
            Cell::Grouped(runs.median(events_per_core_second)),
            Cell::Decimals(runs.median(cores), 2),
            Cell::Ratio(ours.median_ratio(runs, events_per_second)),
            Cell::Ratio(ours.highest(events_per_second) / best),
            Cell::Ratio(ours.median_ratio(runs, events_per_core_second)),
        ]);
        let name = FigureName::new(contestant.name(), Unit::EventsPerSecond);
        findings.figure(name, middle);
        add_notes(&mut findings, *contestant, runs);
    }
    let encoding = match load.compression {
        Compression::None => String::new(),
        other => format!(", {other:?}"),
    };
    findings.note(format!(
        "{}{encoding}, closed loop, log in memory.",
        counted(load.connections.into(), "connection")
    ));
    findings
}

/// Notes why the rates of a contestant are not what it is capable of.
fn add_notes(findings: &mut Findings, contestant: Contestant, runs: &Rounds<Summary>) {
    let name = contestant.name();
    let failed = runs.all().iter().map(|run| run.run.failed_requests);
    let failed: u64 = failed.sum();
    if failed > 0 {
        let failed = counted(failed, "request");
        findings.note(format!("{name}: not acknowledged: {failed}."));
    }
    let cores = runs.median(cores);
    if cores < BUSY * contestant.cpus() as f64 {
        findings.note(format!(
            "{name} was busy for {cores:.2} of its CPUs only: the generator was the limit. Go by what is \
             said of a CPU second."
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::suite::render;

    fn summary(events_per_second: f64) -> Summary {
        let json = serde_json::json!({
            "run_id": "00000001", "plan": Plan::new("http://h", "k"),
            "run": {"acknowledged_requests": 1, "acknowledged_events": 1, "failed_requests": 0},
            "window": {"acknowledged_requests": 1, "acknowledged_events": 1, "failed_requests": 0},
            "window_seconds": 1.0, "events_per_second": events_per_second,
            "requests_per_second": 1.0, "wire_bytes_per_second": 1.0,
            "latency": crate::summary::Percentiles::default(),
            "send_lag": crate::summary::Percentiles::default(),
            "failures": {}, "first_failure": null,
            "generator": crate::summary::Load::default(), "server": null,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn ratios_are_made_round_by_round() {
        let load = super::super::load::BATCHES;
        // The machine was half as fast in the second round, and a third as fast in the third.
        let ours: Rounds<Summary> = [600.0, 300.0, 200.0].map(summary).into_iter().collect();
        let theirs: Rounds<Summary> = [1200.0, 600.0, 400.0].map(summary).into_iter().collect();
        let contestants = [Contestant::Tape, Contestant::Drain];
        let findings = findings(load, &contestants, &[ours, theirs]);
        let outcome = render::outcome("batches", "", findings);
        let drain = &outcome.rows[1];
        assert_eq!(drain[1..3], ["600", "400 to 1 200"]);
        assert_eq!(drain[6..8], ["0.50", "0.50"]);
        assert_eq!(drain[8], "–");
        assert_eq!(outcome.figures.len(), 2);
    }
}
