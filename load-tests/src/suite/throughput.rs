//! Throughput of servers in a closed loop, side by side.

use super::bench::Bench;
use super::load::Load;
use super::outcome::{Outcome, median, ratio};
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
pub fn measure(bench: &mut Bench<'_>, load: Load, contestants: &[Contestant]) -> Result<Outcome> {
    let mut runs: Vec<Vec<Summary>> = vec![Vec::new(); contestants.len()];
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
    Ok(outcome(load, contestants, &runs))
}

fn once(bench: &Bench<'_>, load: Load, contestant: Contestant) -> Result<Summary> {
    let server = Server::start(bench, contestant)?;
    let mut plan = bench.plan(&server, contestant.cpus());
    load.apply(&mut plan);
    bench.run(&plan)
}

/// Rates of one contestant, by round.
struct Rates {
    events: Vec<f64>,
    /// Events per second of the server's CPU time, which leaves out waiting and neighbours.
    per_core: Vec<f64>,
    failed: u64,
    cores: f64,
}

impl Rates {
    fn of(runs: &[Summary]) -> Self {
        let each = |of: fn(&Summary) -> f64| runs.iter().map(of).collect::<Vec<_>>();
        Self {
            events: each(|run| run.events_per_second),
            per_core: each(|run| {
                run.server
                    .map_or(f64::NAN, |load| load.events_per_core_second)
            }),
            failed: runs.iter().map(|run| run.run.failed_requests).sum(),
            cores: median(&each(|run| run.server.map_or(f64::NAN, |load| load.cores))),
        }
    }

    fn best(&self) -> f64 {
        self.events.iter().copied().fold(f64::NAN, f64::max)
    }
}

fn outcome(load: Load, contestants: &[Contestant], runs: &[Vec<Summary>]) -> Outcome {
    let mut outcome = Outcome::with_columns(&[
        "Server",
        "events/s, median",
        "best",
        "requests/s, median",
        "events per CPU s",
        "cores",
        "ours ÷ this, median of rounds",
        "of the best",
        "per CPU s",
    ]);
    let rates: Vec<_> = runs.iter().map(|runs| Rates::of(runs)).collect();
    let Some(ours) = rates.first() else {
        return outcome;
    };
    for (contestant, rates) in contestants.iter().zip(&rates) {
        let middle = median(&rates.events);
        let of_rounds = |ours: &[f64], theirs: &[f64]| {
            let each: Vec<_> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
            median(&each)
        };
        outcome.row([
            contestant.name(),
            grouped(middle),
            grouped(rates.best()),
            grouped(middle / f64::from(load.batch_events)),
            grouped(median(&rates.per_core)),
            format!("{:.2}", rates.cores),
            ratio(of_rounds(&ours.events, &rates.events), 1.0),
            ratio(ours.best(), rates.best()),
            ratio(of_rounds(&ours.per_core, &rates.per_core), 1.0),
        ]);
        if rates.failed > 0 {
            let name = contestant.name();
            let failed = counted(rates.failed, "request");
            outcome
                .notes
                .push(format!("{name}: not acknowledged: {failed}."));
        }
        let name = contestant.name();
        if rates.cores < BUSY * contestant.cpus() as f64 {
            outcome.notes.push(format!(
                "{name} was busy for {:.2} of its CPUs only: the generator was the limit. Go by what is \
                 said of a CPU second.",
                rates.cores
            ));
        }
        outcome.figure(&format!("{name}: events_per_second"), middle);
    }
    let encoding = match load.compression {
        Compression::None => String::new(),
        other => format!(", {other:?}"),
    };
    outcome.notes.push(format!(
        "{}{encoding}, closed loop, log in memory.",
        counted(load.connections.into(), "connection")
    ));
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

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
        let ours = [600.0, 300.0, 200.0].map(summary).to_vec();
        let theirs = [1200.0, 600.0, 400.0].map(summary).to_vec();
        let outcome = outcome(
            load,
            &[Contestant::Tape, Contestant::Drain],
            &[ours, theirs],
        );
        let drain = &outcome.rows[1];
        assert_eq!(drain[1..3], ["600", "1 200"]);
        assert_eq!(drain[6..8], ["0.50", "0.50"]);
        assert_eq!(drain[8], "–");
        assert_eq!(outcome.figures.len(), 2);
    }
}
