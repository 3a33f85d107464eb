//! Latency of a small project beside one that sends a hundred times as much.
//!
//! The small project sends at a fixed rate, alone and beside the other one, in turn. The other one
//! first sends a hundred times as many events at a fixed rate, then as many as it can.

use super::bench::Bench;
use super::outcome::{Line, Outcome, Plot, median, ratio};
use super::projects::Projects;
use super::server::{Contestant, Server};
use super::store::Store;
use crate::digits::grouped;
use crate::keys::Keys;
use crate::plan::{Mode, Plan};
use crate::run::run_observed;
use crate::stop::Stop;
use crate::summary::{Percentiles, Summary};
use anyhow::{Context, Result, anyhow};
use std::time::Duration;

/// Rate of the small project, with its batch size and connections below.
const EVENTS_PER_SECOND: f64 = 1_000.0;
const BATCH_EVENTS: u32 = 10;
const CONNECTIONS: u16 = 8;
/// Rate of the large project as a multiple, with its batch size and connections below.
const TIMES: f64 = 100.0;
const BATCH_EVENTS_LARGE: u32 = 250;
const CONNECTIONS_LARGE: u16 = 64;
/// Number of windows in a run; with fewer, the small project's p99 would be of few requests.
const WINDOWS: u32 = 3;

/// Load of the large project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NeighbourLoad {
    Nobody,
    HundredTimes,
    AllItCan,
}

const ALL: [NeighbourLoad; 3] = [
    NeighbourLoad::Nobody,
    NeighbourLoad::HundredTimes,
    NeighbourLoad::AllItCan,
];

impl NeighbourLoad {
    const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "alone",
            Self::HundredTimes => "beside 100 times as much",
            Self::AllItCan => "beside all that another can send",
        }
    }

    const fn mode(self) -> Option<Mode> {
        match self {
            Self::Nobody => None,
            Self::HundredTimes => Some(Mode::Open {
                events_per_second: EVENTS_PER_SECOND * TIMES,
            }),
            Self::AllItCan => Some(Mode::Closed),
        }
    }
}

/// Runs of the small project, and the large one's rates meanwhile.
#[derive(Clone, Debug, Default)]
struct Runs {
    small: Vec<Percentiles>,
    small_failed: u64,
    large_events_per_second: Vec<f64>,
}

/// Measures the three loads in turn, with both stores.
///
/// # Errors
/// A server does not start or a run fails.
pub fn measure(bench: &mut Bench<'_>) -> Result<Outcome> {
    let projects = Projects::make(bench, 2)?;
    let mut outcome = Outcome::with_columns(&[
        "A small project",
        "log",
        "p50 ms",
        "p99 ms",
        "p99 ÷ alone, median of rounds",
        "failed",
        "the other's events/s",
    ]);
    let mut lines = Vec::new();
    for store in [Store::Memory, Store::Disk] {
        let mut runs = ALL.map(|_| Runs::default());
        for round in 0..bench.effort.rounds {
            for (neighbour, runs) in ALL.iter().zip(&mut runs) {
                let (small, large) = once(bench, &projects, store, *neighbour)?;
                bench.say(&format!(
                    "  {}, round {} of {}: p99 {:>8.3} ms {}",
                    store.name(),
                    round + 1,
                    bench.effort.rounds,
                    small.latency.p99_us / 1e3,
                    neighbour.name()
                ));
                runs.small.push(small.latency);
                runs.small_failed += small.run.failed_requests;
                let rate = large.map_or(f64::NAN, |large| large.events_per_second);
                runs.large_events_per_second.push(rate);
            }
        }
        report(&mut outcome, &mut lines, store, &runs);
    }
    outcome.plot = Some(Plot {
        x: "one request in so many is slower".to_owned(),
        y: "milliseconds".to_owned(),
        log_scale: true,
        lines,
    });
    outcome.notes.push(format!(
        "The small project sends {} events/s in requests of {BATCH_EVENTS} over {CONNECTIONS} \
         connections, the other requests of {BATCH_EVENTS_LARGE} over {CONNECTIONS_LARGE}; one \
         worker.",
        grouped(EVENTS_PER_SECOND)
    ));
    Ok(outcome)
}

fn report(outcome: &mut Outcome, lines: &mut Vec<Line>, store: Store, runs: &[Runs; 3]) {
    let [alone, ..] = runs;
    for (neighbour, of_this) in ALL.iter().zip(runs) {
        let middle = |at: fn(&Percentiles) -> f64| {
            median(&of_this.small.iter().map(at).collect::<Vec<_>>()) / 1e3
        };
        let ratios: Vec<_> = of_this
            .small
            .iter()
            .zip(&alone.small)
            .map(|(this, alone)| this.p99_us / alone.p99_us)
            .collect();
        outcome.row([
            neighbour.name().to_owned(),
            store.place().to_owned(),
            format!("{:.3}", middle(|it| it.p50_us)),
            format!("{:.3}", middle(|it| it.p99_us)),
            ratio(median(&ratios), 1.0),
            of_this.small_failed.to_string(),
            grouped(median(&of_this.large_events_per_second)),
        ]);
        let name = |what: &str| format!("{}, {}: {what}", store.name(), neighbour.name());
        outcome.figure(&name("p99_ms"), middle(|it| it.p99_us));
        if *neighbour != NeighbourLoad::Nobody {
            outcome.figure(&name("p99_ratio"), median(&ratios));
        }
        let points = [
            (2.0, middle(|it| it.p50_us)),
            (10.0, middle(|it| it.p90_us)),
            (100.0, middle(|it| it.p99_us)),
            (1_000.0, middle(|it| it.p999_us)),
        ];
        lines.push(Line {
            name: format!("{}, {}", neighbour.name(), store.place()),
            points: points.into(),
        });
    }
}

fn once(
    bench: &Bench<'_>,
    projects: &Projects,
    store: Store,
    neighbour: NeighbourLoad,
) -> Result<(Summary, Option<Summary>)> {
    let contestant = Contestant::Ours { workers: 1, store };
    let server = Server::start_with(bench, contestant, projects.server_options())?;
    let plan = |number: usize| -> Result<Plan> {
        let key = projects.keys.get(number).context("a project is missing")?;
        let mut plan = bench.plan(&server, contestant.cpus());
        plan.keys = Keys::new(vec![key.clone()]);
        plan.event_bytes = 998;
        Ok(plan)
    };
    let mut small = plan(0)?;
    small.mode = Mode::Open {
        events_per_second: EVENTS_PER_SECOND,
    };
    small.batch_events = BATCH_EVENTS;
    small.connections = CONNECTIONS;
    small.duration = bench.effort.window * WINDOWS;
    // Each generator has a CPU of its own where there are enough, so that the generator is not what
    // is measured.
    let mut large = plan(1)?;
    if large.pin.len() > 1 {
        small.pin = large.pin.split_off(large.pin.len() - 1);
    }
    (small.threads, large.threads) = (1, large.pin.len().max(1));
    large.batch_events = BATCH_EVENTS_LARGE;
    large.connections = CONNECTIONS_LARGE;
    let Some(mode) = neighbour.mode() else {
        return Ok((bench.run(&small)?, None));
    };
    large.mode = mode;
    // The large project's load starts before the small one's window and ends after it.
    large.duration = Duration::from_secs(3_600);
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run_observed(&large, &stop, &mut |_| {}));
        let summary = bench.run(&small);
        stop.ask();
        let other = other
            .join()
            .map_err(|_| anyhow!("the other load panicked"))??;
        Ok((summary?, Some(other)))
    })
}
