//! Resident memory under a long load that is shipped all the while.
//!
//! First the rate is measured at which events become queryable; most of it is then kept up, so that
//! the log stays small. The engine's tables are emptied from time to time, as no disk has space for
//! ten minutes of events.

use super::bench::Bench;
use super::engine::Engine;
use super::figure::{FigureName, Unit};
use super::findings::{Cell, Findings};
use super::interval::median;
use super::outcome::{Line, Plot};
use super::server::Contestant;
use super::visible::follow;
use crate::digits::{counted, grouped};
use crate::plan::Mode;
use crate::report::mebibytes;
use crate::resources::ResourcePoint;
use anyhow::Result;
use std::time::{Duration, Instant};

const CONNECTIONS: u16 = 256;
/// Share of the sustainable rate.
const PART: f64 = 0.8;
/// Interval at which tables are emptied; the log's age is read more often.
const EMPTY_AFTER: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Length of the first and the last minute in seconds; half of a run that is too short for both.
const EDGE_SECONDS: f64 = 60.0;

/// Resident memory in MiB, by seconds.
type Samples = Vec<(f64, f64)>;

/// Measures one run.
///
/// # Errors
/// A server or the engine does not start, or a run fails.
pub fn measure(bench: &mut Bench<'_>) -> Result<Findings> {
    let engine = Engine::start(
        bench,
        &bench.cpus.split_with_engine(Contestant::OURS.cpus()).engine,
    )?;
    let kept_up = {
        let (_server, mut plan) = engine.server(bench, Contestant::OURS)?;
        plan.connections = CONNECTIONS;
        follow(bench, &engine, &plan)?.rows_per_second()
    };
    engine.empty()?;
    let events_per_second = (kept_up * PART).max(1.0);
    bench.say(&format!(
        "  {} events/s can be kept up; {} for {} s",
        grouped(kept_up),
        grouped(events_per_second),
        bench.effort.soak.as_secs()
    ));
    let (server, mut plan) = engine.server(bench, Contestant::OURS)?;
    plan.connections = CONNECTIONS;
    plan.duration = bench.effort.soak;
    plan.mode = Mode::Open { events_per_second };
    let (mut emptied, mut looked) = (Instant::now(), Instant::now());
    let mut age_seconds_max: f64 = 0.0;
    let summary = bench.run_observed(&plan, &mut |_| {
        // A dead server or engine shows in the summary, as failures or as memory.
        if emptied.elapsed() >= EMPTY_AFTER {
            emptied = Instant::now();
            let _ = engine.empty();
        }
        if looked.elapsed() >= LOOK_AGAIN {
            looked = Instant::now();
            let age = server.metric("millrace_shipping_lag_seconds");
            age_seconds_max = age_seconds_max.max(age.unwrap_or_default());
        }
    })?;
    let mut findings = findings(samples(&summary.resources));
    findings.note(format!(
        "{} of {} events/s acknowledged in requests of 250 over {CONNECTIONS} connections, log in \
         memory, one worker; {} failed. The oldest event not yet in ClickHouse was at \
         most {age_seconds_max:.1} s old.",
        grouped(summary.events_per_second),
        grouped(events_per_second),
        counted(summary.run.failed_requests, "request")
    ));
    if let Some(failure) = summary.first_failure {
        findings.note(format!("The first failure: {failure}"));
    }
    let rate = FigureName::new("Millrace", Unit::EventsPerSecond);
    findings.figure(rate, summary.events_per_second);
    let age = FigureName::new("oldest unshipped event", Unit::Seconds);
    findings.figure(age, age_seconds_max);
    Ok(findings)
}

fn samples(resources: &[ResourcePoint]) -> Samples {
    let sample = |point: &ResourcePoint| {
        let server = point.server?;
        Some((point.at_seconds, mebibytes(server.rss_bytes)))
    };
    resources.iter().filter_map(sample).collect()
}

fn findings(samples: Samples) -> Findings {
    let begin = samples.first().map_or(0.0, |(at, _)| *at);
    let end = samples.last().map_or(0.0, |(at, _)| *at);
    let edge = EDGE_SECONDS.min((end - begin) / 2.0);
    let between = |from: f64, to: f64| -> Samples {
        let is_in = |(at, _): &&(f64, f64)| (from..=to).contains(at);
        samples.iter().filter(is_in).copied().collect()
    };
    let middle = |samples: Samples| median(&samples.iter().map(|it| it.1).collect::<Vec<_>>());
    let most = samples.iter().map(|it| it.1).fold(f64::NAN, f64::max);
    let mut findings = Findings::with_columns(&["Millrace, one worker", "MiB"]);
    let begin_minute = between(begin, begin + edge);
    let end_minute = between(end - edge, end);
    let growth = slope(&between(begin + edge, end)) * 60.0;
    for (name, unit, value) in [
        (
            "first minute, median",
            Unit::Mebibytes,
            middle(begin_minute),
        ),
        ("last minute, median", Unit::Mebibytes, middle(end_minute)),
        ("most", Unit::Mebibytes, most),
        (
            "growth after the first minute",
            Unit::MebibytesPerMinute,
            growth,
        ),
    ] {
        let cell = match unit {
            Unit::MebibytesPerMinute => format!("{value:.1} a minute").into(),
            _ => Cell::Decimals(value, 1),
        };
        findings.row([name.into(), cell]);
        findings.figure(FigureName::new(name, unit), value);
    }
    findings.plot = Some(Plot::linear(
        "seconds",
        "MiB resident",
        vec![Line::new(format!("{CONNECTIONS} connections"), samples)],
    ));
    findings
}

/// Slope of the least-squares line through the points; `NaN` if there is none.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| {
        let of = |(x, y): &(f64, f64)| of(x - x_mean, y - y_mean);
        points.iter().map(of).sum::<f64>()
    };
    sum(&|x, y| x * y) / sum(&|x, _| x * x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::render;

    #[test]
    fn the_slope_is_that_of_the_nearest_line() {
        let line: Samples = (0..100)
            .map(|x| (f64::from(x), 3.0 + 0.5 * f64::from(x)))
            .collect();
        assert!((slope(&line) - 0.5).abs() < 1e-9);
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 5.0), (2.0, 1.0)]), 0.0);
        for none in [&[][..], &[(1.0, 1.0)]] {
            assert!(slope(none).is_nan(), "{none:?}");
        }
    }

    #[test]
    fn the_first_and_the_last_minute_are_measured_apart() {
        // Memory grows by 10 MiB in the first minute and then stays.
        let at = |second: u32| (f64::from(second), 100.0 + f64::from(second.min(60)) / 6.0);
        let outcome = render::outcome("soak", "", findings((0..=600).map(at).collect()));
        let figure = |name: &str| outcome.figures.get(name).copied().unwrap();
        assert_eq!(figure("first minute, median: mebibytes"), 105.0);
        assert_eq!(figure("last minute, median: mebibytes"), 110.0);
        assert_eq!(figure("most: mebibytes"), 110.0);
        let growth = figure("growth after the first minute: mebibytes_per_minute");
        assert!(growth.abs() < 1e-9, "{growth}");
        assert_eq!(outcome.rows[3][1], "0.0 a minute");
    }

    #[test]
    fn a_short_run_is_split_into_halves() {
        let samples = vec![(0.0, 1.0), (1.0, 1.0), (2.0, 3.0), (3.0, 3.0)];
        let outcome = render::outcome("soak", "", findings(samples));
        assert_eq!(outcome.rows[0][1], "1.0");
        assert_eq!(outcome.rows[1][1], "3.0");
    }
}
