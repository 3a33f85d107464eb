//! Latency of a small project beside one that sends a hundred times as much.
//!
//! The small project sends at a fixed rate, alone and beside the other one, in turn. The other one
//! first sends a hundred times as many events at a fixed rate, then as many as it can.

use super::bench::Bench;
use super::figure::{FigureName, Quantity, Unit};
use super::findings::{Cell, Findings};
use super::outcome::{Line, Plot};
use super::projects::Projects;
use super::rounds::Rounds;
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

/// Run of the small project, and the large one's rate meanwhile.
#[derive(Clone, Debug)]
struct NeighbourRound {
    small: Summary,
    large_events_per_second: f64,
}

impl NeighbourRound {
    fn p99_ms(&self) -> f64 {
        self.small.latency.p99_us / 1e3
    }
}

/// Measures the three loads in turn, with both stores.
///
/// # Errors
/// A server does not start or a run fails.
pub fn measure(bench: &mut Bench<'_>) -> Result<Findings> {
    let projects = Projects::make(bench, 2)?;
    let mut findings = Findings::with_columns(&[
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
        let mut loads = ALL.map(|_| Rounds::new());
        for number in 1..=bench.effort.rounds {
            for (neighbour, rounds) in ALL.iter().zip(&mut loads) {
                let round = once(bench, &projects, store, *neighbour)?;
                bench.say(&format!(
                    "  {}, round {number} of {}: p99 {:>8.3} ms {}",
                    store.name(),
                    bench.effort.rounds,
                    round.p99_ms(),
                    neighbour.name()
                ));
                rounds.push(round);
            }
        }
        let [alone, ..] = &loads;
        for (neighbour, rounds) in ALL.iter().zip(&loads) {
            report(&mut findings, store, *neighbour, rounds, alone);
            lines.push(line(store, *neighbour, rounds));
        }
    }
    findings.plot = Some(Plot::logarithmic(
        "one request in so many is slower",
        "milliseconds",
        lines,
    ));
    findings.note(format!(
        "The small project sends {} events/s in requests of {BATCH_EVENTS} over {CONNECTIONS} \
         connections, the other requests of {BATCH_EVENTS_LARGE} over {CONNECTIONS_LARGE}; one \
         worker.",
        grouped(EVENTS_PER_SECOND)
    ));
    Ok(findings)
}

fn report(
    findings: &mut Findings,
    store: Store,
    neighbour: NeighbourLoad,
    rounds: &Rounds<NeighbourRound>,
    alone: &Rounds<NeighbourRound>,
) {
    let p50_ms = rounds.median(|it| it.small.latency.p50_us / 1e3);
    let p99_ms = rounds.median(NeighbourRound::p99_ms);
    let of_alone = rounds.median_ratio(alone, NeighbourRound::p99_ms);
    let failed = rounds.all().iter().map(|it| it.small.run.failed_requests);
    findings.row([
        neighbour.name().into(),
        store.place().into(),
        Cell::Decimals(p50_ms, 3),
        Cell::Decimals(p99_ms, 3),
        Cell::Ratio(of_alone),
        failed.sum::<u64>().to_string().into(),
        Cell::Grouped(rounds.median(|it| it.large_events_per_second)),
    ]);
    let name = |unit| {
        let subject = format!("{}, {}", store.name(), neighbour.name());
        FigureName::with_quantity(subject, Quantity::Quantile("p99"), unit)
    };
    findings.figure(name(Unit::Milliseconds), p99_ms);
    if neighbour != NeighbourLoad::Nobody {
        findings.figure(name(Unit::Ratio), of_alone);
    }
}

fn line(store: Store, neighbour: NeighbourLoad, rounds: &Rounds<NeighbourRound>) -> Line {
    let at = |of: fn(&Percentiles) -> f64| rounds.median(|it| of(&it.small.latency)) / 1e3;
    Line::new(
        format!("{}, {}", neighbour.name(), store.place()),
        vec![
            (2.0, at(|it| it.p50_us)),
            (10.0, at(|it| it.p90_us)),
            (100.0, at(|it| it.p99_us)),
            (1_000.0, at(|it| it.p999_us)),
        ],
    )
}

fn once(
    bench: &Bench<'_>,
    projects: &Projects,
    store: Store,
    neighbour: NeighbourLoad,
) -> Result<NeighbourRound> {
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
        return Ok(NeighbourRound {
            small: bench.run(&small)?,
            large_events_per_second: f64::NAN,
        });
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
        Ok(NeighbourRound {
            small: summary?,
            large_events_per_second: other.events_per_second,
        })
    })
}
