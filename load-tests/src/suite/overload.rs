//! Overload by three times the highest rate: throughput, time of refusals, memory, and time to
//! recover.

use super::bench::Bench;
use super::figure::{FigureSpec, Unit};
use super::findings::Findings;
use super::interval::median;
use super::load::BATCHES;
use super::outcome::{Line, Plot};
use super::rounds::Rounds;
use super::server::{Contestant, Server};
use crate::digits::grouped;
use crate::plan::{Mode, Plan};
use crate::report::mebibytes;
use crate::series::Point;
use crate::summary::Summary;
use anyhow::Result;
use std::time::Duration;

/// Number of connections under overload; their bodies together exceed the budget for waiting
/// bodies.
const CONNECTIONS: u16 = 1_024;
/// Connections of the closed loop that finds the highest rate.
const CONNECTIONS_PEAK: u16 = 64;
const TIMES: f64 = 3.0;
/// Share of the highest rate sent before and after the overload.
const PART_CALM: f64 = 0.5;
/// Number of windows of the overload, long enough to show that memory stays flat.
const WINDOWS: u32 = 3;
/// Length of the run that shows the recovery.
const AFTER: Duration = Duration::from_secs(8);
/// Highest ratio of p99 after the overload to p99 before it, for a recovered server.
const WELL_RATIO_MAX: f64 = 2.0;

struct OverloadRound {
    peak: Summary,
    calm: Summary,
    overload: Summary,
    after: Summary,
}

type Spec = FigureSpec<OverloadRound>;

/// Figures of the table, in its order.
const FIGURES: [FigureSpec<OverloadRound>; 11] = [
    Spec::new(
        "highest rate, closed loop",
        Unit::EventsPerSecond,
        0,
        |it| it.peak.events_per_second,
    ),
    Spec::new(
        "acknowledged under overload",
        Unit::EventsPerSecond,
        0,
        |it| it.overload.events_per_second,
    ),
    Spec::new("of the highest rate", Unit::Ratio, 2, |it| {
        stored_per_second(&it.overload) / it.peak.events_per_second
    }),
    Spec::new("requests refused", Unit::Count, 0, |it| {
        it.overload.refusal.count as f64
    }),
    Spec::new("other failures", Unit::Count, 0, |it| {
        other_failures(&it.overload)
    }),
    Spec::new("due and not sent", Unit::Count, 0, |it| {
        it.overload.run.unsent_requests as f64
    }),
    Spec::new("503, p50", Unit::Milliseconds, 1, |it| {
        it.overload.refusal.p50_us / 1e3
    }),
    Spec::new("503, p99", Unit::Milliseconds, 1, |it| {
        it.overload.refusal.p99_us / 1e3
    }),
    Spec::new("resident, most", Unit::Mebibytes, 0, |it| {
        ResidentMemory::of(&it.overload).most_mebibytes
    }),
    Spec::new(
        "resident, growth from the middle to the end",
        Unit::Mebibytes,
        1,
        |it| ResidentMemory::of(&it.overload).growth_mebibytes,
    ),
    Spec::new("well again after", Unit::Seconds, 0, |it| {
        recovery_seconds(&it.after.series.points, it.calm.latency.p99_us)
    }),
];

/// Runs the highest rate, half of it, three times of it and half of it again; each round has a new
/// server.
///
/// # Errors
/// A server does not start or a run fails.
pub fn measure(bench: &mut Bench<'_>) -> Result<Findings> {
    let rounds = bench.rounds("", |bench| {
        let round = measure_round(bench)?;
        let said = format!(
            ": {:>12} of {} events/s",
            grouped(stored_per_second(&round.overload)),
            grouped(round.peak.events_per_second)
        );
        Ok((round, said))
    })?;
    let heading = "Millrace, one worker, median of rounds";
    let mut findings = Findings::with_columns(&[heading, "value"]);
    findings.figures_of(&FIGURES, &rounds);
    findings.plot = plot(&rounds);
    findings.note(format!(
        "Requests of 250 events, {CONNECTIONS} connections, three times the highest rate due; a \
         503 counts from when its request was sent. Well again: half of the highest rate, no \
         request refused and p99 at most {WELL_RATIO_MAX} times that of before, by whole seconds."
    ));
    Ok(findings)
}

fn measure_round(bench: &Bench<'_>) -> Result<OverloadRound> {
    let server = Server::start(bench, Contestant::OURS)?;
    let plan = |connections, mode| {
        let mut plan = bench.plan(&server, Contestant::OURS.cpus());
        BATCHES.apply(&mut plan);
        plan.connections = connections;
        plan.mode = mode;
        plan
    };
    let peak = bench.run(&plan(CONNECTIONS_PEAK, Mode::Closed))?;
    let open = |part: f64| Mode::Open {
        events_per_second: (peak.events_per_second * part).max(1.0),
    };
    let calm = plan(CONNECTIONS_PEAK, open(PART_CALM));
    let before = bench.run(&calm)?;
    let overload = bench.run(&Plan {
        duration: bench.effort.window * WINDOWS,
        ..plan(CONNECTIONS, open(TIMES))
    })?;
    let after = bench.run(&Plan {
        warm_up: Duration::ZERO,
        duration: AFTER,
        ..calm
    })?;
    Ok(OverloadRound {
        peak,
        calm: before,
        overload,
        after,
    })
}

/// Seconds until no request fails any more and p99 is as before.
fn recovery_seconds(points: &[Point], p99_us_before: f64) -> f64 {
    let is_well = |point: &&Point| {
        let p99_us = point.latency.map_or(0.0, |latency| latency.p99_us);
        point.failed_requests == 0 && p99_us <= p99_us_before * WELL_RATIO_MAX
    };
    let last_unwell = points.iter().rposition(|point| !is_well(&point));
    last_unwell
        .and_then(|at| points.get(at))
        .map_or(0.0, |point| point.at_seconds + point.seconds)
}

/// Stored events per second, by the time of their responses, until the last response.
pub(super) fn stored_per_second(run: &Summary) -> f64 {
    let window = run.series.points.iter().filter(|it| it.at_seconds >= 0.0);
    let (events, seconds) = window.fold((0.0, 0.0), |(events, seconds), point| {
        (
            events + point.acknowledged_events as f64,
            seconds + point.seconds,
        )
    });
    events / seconds
}

/// Resident memory of a server under overload.
pub(super) struct ResidentMemory {
    /// The highest.
    pub(super) most_mebibytes: f64,
    /// Median of the last third less that of the middle third.
    pub(super) growth_mebibytes: f64,
}

impl ResidentMemory {
    /// Memory of the server in the window of a run.
    pub(super) fn of(overload: &Summary) -> Self {
        let rss: Vec<f64> = overload
            .resources
            .iter()
            .filter(|point| point.at_seconds >= 0.0)
            .filter_map(|point| Some(mebibytes(point.server?.rss_bytes)))
            .collect();
        let third = rss.len() / 3;
        let middle = rss.get(third..third * 2).unwrap_or_default();
        let last = rss.get(third * 2..).unwrap_or_default();
        Self {
            most_mebibytes: rss.iter().copied().fold(f64::NAN, f64::max),
            growth_mebibytes: median(last) - median(middle),
        }
    }
}

/// Failed requests that were not refused.
pub(super) fn other_failures(run: &Summary) -> f64 {
    run.window.failed_requests.saturating_sub(run.refusal.count) as f64
}

fn plot(rounds: &Rounds<OverloadRound>) -> Option<Plot> {
    let last = rounds.last()?;
    let line = |name: &str, value: fn(&Point) -> u64| {
        let points = last.overload.series.points.iter().map(|point| {
            let requests = value(point) as f64 / point.seconds.max(f64::MIN_POSITIVE);
            (point.at_seconds, requests)
        });
        Line::new(name, points.collect())
    };
    Some(Plot::linear(
        "seconds of overload",
        "requests a second",
        vec![
            line("stored", |point| point.acknowledged_requests),
            line("refused", |point| point.failed_requests),
        ],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::PointLatency;
    use crate::suite::figure::tests::assert_committed;

    #[test]
    fn committed_results_have_these_figures() {
        assert_committed("overload", &FIGURES);
    }

    #[test]
    fn recovery_ends_when_no_request_fails_and_p99_is_low() {
        let point = |second: u32, failed: u64, p99_us: f64| Point {
            at_seconds: f64::from(second),
            seconds: 1.0,
            acknowledged_requests: 1,
            acknowledged_events: 1,
            failed_requests: failed,
            latency: Some(PointLatency {
                p50_us: p99_us,
                p90_us: p99_us,
                p99_us,
                p999_us: p99_us,
                max_us: p99_us,
            }),
        };
        let table = [
            (vec![point(0, 0, 10.0), point(1, 0, 20.0)], 0.0),
            (vec![point(0, 5, 10.0), point(1, 0, 10.0)], 1.0),
            (
                vec![point(0, 0, 10.0), point(1, 0, 21.0), point(2, 0, 9.0)],
                2.0,
            ),
            (vec![], 0.0),
        ];
        for (points, seconds) in table {
            assert_eq!(recovery_seconds(&points, 10.0), seconds, "{points:?}");
        }
    }
}
