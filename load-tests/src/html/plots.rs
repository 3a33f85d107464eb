//! Selection of a page's plots, of one run or of two on the same axes.

use super::axis::{Axis, percentile_at};
use super::plot::{Ink, Line, Plot};
use crate::report::mebibytes;
use crate::resources::{ResourcePoint, Used};
use crate::series::{Point, PointLatency};
use crate::summary::Summary;

/// A run on a page: alone, or as A or B of a comparison.
#[derive(Clone, Copy)]
pub struct PlottedRun<'a> {
    /// Prefix of the lines' names: empty, `A ` or `B `.
    pub prefix: &'static str,
    /// Colour of the run, if there are two.
    pub ink: Option<Ink>,
    /// Summary of the run.
    pub summary: &'a Summary,
}

/// All plots that have data. Of two runs, the first is drawn last, on top.
#[must_use]
pub fn plots(runs: &[PlottedRun<'_>]) -> Vec<Plot> {
    let all = [
        throughput(runs),
        failures(runs),
        latency(runs),
        distribution(runs),
        cores(runs),
        memory(runs),
    ];
    all.into_iter().flatten().collect()
}

/// Percentile over time: its name, its colour, whether comparisons show it, and its value.
type Percentile = (&'static str, Ink, bool, fn(&PointLatency) -> f64);
const PERCENTILES: [Percentile; 4] = [
    ("slowest", Ink::Fourth, false, |latency| latency.max_us),
    ("p99.9", Ink::Third, false, |latency| latency.p999_us),
    ("p99", Ink::Second, true, |latency| latency.p99_us),
    ("p50", Ink::First, true, |latency| latency.p50_us),
];

fn throughput(runs: &[PlottedRun<'_>]) -> Option<Plot> {
    let mut lines = Vec::new();
    for run in runs.iter().rev() {
        let points = points(run.summary);
        let value = |point: &&Point| Some((middle(point), point.events_per_second()));
        lines.push(run.line("events/s", Ink::First, false, points.iter().map(value)));
    }
    let max = most(&lines)?;
    Some(Plot {
        title: "Throughput",
        about: "Acknowledged events per second",
        x: seconds(runs),
        y: Axis::counts(max),
        lines,
        warm_up_end: warm_up_end(runs),
    })
}

fn failures(runs: &[PlottedRun<'_>]) -> Option<Plot> {
    let mut lines = Vec::new();
    for run in runs.iter().rev() {
        let points = points(run.summary);
        let failed = |point: &Point| point.failed_requests as f64 / point.seconds;
        let value = |point: &&Point| Some((middle(point), failed(point)));
        lines.push(run.line("failed/s", Ink::Third, false, points.iter().map(value)));
    }
    let max = most(&lines).filter(|max| *max > 0.0)?;
    Some(Plot {
        title: "Failures",
        about: "Requests per second that were not acknowledged",
        x: seconds(runs),
        y: Axis::counts(max),
        lines,
        warm_up_end: warm_up_end(runs),
    })
}

fn latency(runs: &[PlottedRun<'_>]) -> Option<Plot> {
    let mut lines = Vec::new();
    let (mut min, mut max) = (f64::INFINITY, 0.0_f64);
    for (name, ink, compared, of) in PERCENTILES {
        for run in runs
            .iter()
            .rev()
            .filter(|run| run.ink.is_none() || compared)
        {
            let points = points(run.summary);
            let value = |point: &&Point| {
                let micros = of(&point.latency?).max(1.0);
                Some((middle(point), micros.log10()))
            };
            let dashed = run.ink.is_some() && name != "p50";
            let line = run.line(name, ink, dashed, points.iter().map(value));
            for (_, log) in line.pieces.iter().flatten() {
                let micros = 10_f64.powf(*log);
                (min, max) = (min.min(micros), max.max(micros));
            }
            lines.push(line);
        }
    }
    lines
        .iter()
        .any(|line| !line.pieces.is_empty())
        .then(|| Plot {
            title: "Latency",
            about: "From when a request was due to its whole answer, on a logarithmic scale",
            x: seconds(runs),
            y: Axis::latency(min, max),
            lines,
            warm_up_end: warm_up_end(runs),
        })
}

fn distribution(runs: &[PlottedRun<'_>]) -> Option<Plot> {
    let count = runs.iter().map(|run| run.summary.latency.count).max()?;
    let mut lines = Vec::new();
    for run in runs.iter().rev() {
        let summary = run.summary;
        let value = |quantile: &crate::summary::Quantile| {
            let x = percentile_at(quantile.quantile, summary.latency.count);
            Some((x, quantile.latency_us.max(1.0).log10()))
        };
        let points = summary.latency_distribution.iter().map(value);
        lines.push(run.line("latency", Ink::First, false, points));
    }
    let ends = |run: &PlottedRun<'_>| (run.summary.latency.min_us, run.summary.latency.max_us);
    let min = runs
        .iter()
        .map(|run| ends(run).0)
        .fold(f64::INFINITY, f64::min);
    let max = runs.iter().map(|run| ends(run).1).fold(0.0, f64::max);
    most(&lines)?;
    Some(Plot {
        title: "Latency by percentile",
        about: "How slow the slowest requests of the window were; every nine further to the \
            right are ten times fewer",
        x: Axis::percentiles(count),
        y: Axis::latency(min, max),
        lines,
        warm_up_end: None,
    })
}

fn cores(runs: &[PlottedRun<'_>]) -> Option<Plot> {
    let lines = used(runs, |used| used.cores);
    let max = most(&lines)?;
    Some(Plot {
        title: "CPU",
        about: "Cores in use",
        x: seconds(runs),
        y: Axis::counts(max),
        lines,
        warm_up_end: warm_up_end(runs),
    })
}

fn memory(runs: &[PlottedRun<'_>]) -> Option<Plot> {
    let lines = used(runs, |used| mebibytes(used.rss_bytes));
    let max = most(&lines)?;
    Some(Plot {
        title: "Memory",
        about: "Resident, in MiB",
        x: seconds(runs),
        y: Axis::counts(max),
        lines,
        warm_up_end: warm_up_end(runs),
    })
}

/// Lines of the server, if its process was named, and of the generator of a single run.
fn used(runs: &[PlottedRun<'_>], value: fn(&Used) -> f64) -> Vec<Line> {
    let mut lines = Vec::new();
    for run in runs.iter().rev() {
        let points = &run.summary.resources;
        let at = |point: &ResourcePoint, used: &Used| Some((point.at_seconds, value(used)));
        if run.ink.is_none() {
            let points = points.iter().map(|point| at(point, &point.generator));
            lines.push(run.line("generator", Ink::Fourth, false, points));
        }
        if points.iter().any(|point| point.server.is_some()) {
            let points = points.iter().map(|point| at(point, point.server.as_ref()?));
            lines.push(run.line("server", Ink::First, false, points));
        }
    }
    lines
}

impl PlottedRun<'_> {
    /// A line, in the run's colour if it has one; a missing value leaves a gap.
    fn line(
        &self,
        name: &str,
        ink: Ink,
        dashed: bool,
        points: impl Iterator<Item = Option<(f64, f64)>>,
    ) -> Line {
        let mut pieces = vec![Vec::new()];
        for point in points {
            match (point, pieces.last_mut()) {
                (Some(point), Some(piece)) => piece.push(point),
                _ => pieces.push(Vec::new()),
            }
        }
        pieces.retain(|piece| !piece.is_empty());
        Line {
            name: format!("{}{name}", self.prefix),
            ink: self.ink.unwrap_or(ink),
            dashed,
            pieces,
        }
    }
}

/// Points long enough for a rate: the last one may be a fraction of a second.
fn points(summary: &Summary) -> Vec<&Point> {
    let points = &summary.series.points;
    let enough = summary.series.interval_seconds as f64 / 2.0;
    let long = |point: &&Point| point.seconds >= enough || points.len() == 1;
    points.iter().filter(long).collect()
}

fn middle(point: &Point) -> f64 {
    point.at_seconds + point.seconds / 2.0
}

/// Highest value; `None` without a point.
fn most(lines: &[Line]) -> Option<f64> {
    let values = lines.iter().flat_map(|line| line.pieces.iter().flatten());
    values.map(|(_, value)| *value).reduce(f64::max)
}

fn seconds(runs: &[PlottedRun<'_>]) -> Axis {
    let points = || runs.iter().flat_map(|run| &run.summary.series.points);
    let from = points().map(|point| point.at_seconds).fold(0.0, f64::min);
    let to = points().map(|point| point.at_seconds + point.seconds);
    Axis::seconds(from, to.fold(0.0, f64::max))
}

fn warm_up_end(runs: &[PlottedRun<'_>]) -> Option<f64> {
    let warmed_up = |run: &PlottedRun<'_>| !run.summary.plan.warm_up.is_zero();
    runs.iter().any(warmed_up).then_some(0.0)
}
