//! Results as an HTML page: plots, figures and their context, in one file.
//!
//! A page needs nothing else: no script, no font, no network. Plots are SVG inside it, in the
//! colours of the reader's scheme.

pub mod axis;
pub mod facts;
pub mod plot;
pub mod plots;
pub mod units;

use crate::compare::{Row, differences, rows};
use crate::digits::grouped;
use crate::series::Point;
use crate::summary::Summary;
use anyhow::{Context, Result};
use askama::Template;
use facts::Fact;
use plot::{Ink, Plot};
use plots::PlottedRun;
use std::path::Path;

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage<'a> {
    summary: &'a Summary,
    sentence: String,
    headline: Vec<Fact>,
    figures: Vec<Figure>,
    percentiles: Vec<Vec<String>>,
    counts: Vec<Fact>,
    plan: Vec<Fact>,
    seconds: Vec<Second>,
}

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage {
    rows: Vec<Row>,
    differences: Vec<String>,
    figures: Vec<Figure>,
    without_series: bool,
    runs: Vec<Compared>,
}

/// A plot with its two drawings.
struct Figure {
    plot: Plot,
    wide: String,
    narrow: String,
}

/// Row of the table behind the plots.
struct Second {
    cells: Vec<String>,
}

/// A run of the comparison page.
struct Compared {
    name: &'static str,
    run_id: String,
    started_at: String,
    sentence: String,
    command: String,
    plan: Vec<Fact>,
}

/// Renders the page of a run.
///
/// # Errors
/// A plot cannot be drawn.
pub fn run_page(summary: &Summary) -> Result<String> {
    let shown = PlottedRun {
        prefix: "",
        ink: None,
        summary,
    };
    let mut percentiles = vec![facts::percentiles("Latency", &summary.latency)];
    if summary.plan.mode.is_open() {
        percentiles.push(facts::percentiles("Send lag", &summary.send_lag));
    }
    let page = RunPage {
        summary,
        sentence: facts::sentence(&summary.plan),
        headline: facts::headline(summary),
        figures: figures(&[shown])?,
        percentiles,
        counts: facts::counts(summary),
        plan: facts::plan(&summary.plan),
        seconds: seconds(summary),
    };
    page.render().context("cannot make the page")
}

/// Renders the page of two runs on the same axes.
///
/// # Errors
/// A plot cannot be drawn.
pub fn compare_page(a: &Summary, b: &Summary) -> Result<String> {
    let shown = |prefix, ink, summary| PlottedRun {
        prefix,
        ink: Some(ink),
        summary,
    };
    let both = [shown("A ", Ink::First, a), shown("B ", Ink::Second, b)];
    let compared = |name, run: &Summary| Compared {
        name,
        run_id: run.run_id.clone(),
        started_at: run.started_at.clone(),
        sentence: facts::sentence(&run.plan),
        command: run.command.clone(),
        plan: facts::plan(&run.plan),
    };
    let page = ComparePage {
        rows: rows(a, b),
        differences: differences(a, b),
        figures: figures(&both)?,
        without_series: [a, b].iter().any(|run| run.series.points.is_empty()),
        runs: vec![compared("A", a), compared("B", b)],
    };
    page.render().context("cannot make the page")
}

/// Writes a page to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, page: &str) -> Result<()> {
    std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
}

fn figures(runs: &[PlottedRun<'_>]) -> Result<Vec<Figure>> {
    let figure = |plot: Plot| {
        Ok(Figure {
            wide: plot.wide()?,
            narrow: plot.narrow()?,
            plot,
        })
    };
    plots::plots(runs).into_iter().map(figure).collect()
}

fn seconds(summary: &Summary) -> Vec<Second> {
    let milliseconds = |micros: Option<f64>| {
        micros.map_or_else(|| "–".to_owned(), |us| format!("{:.3}", us / 1000.0))
    };
    let enough = summary.series.interval_seconds as f64 / 2.0;
    let rate = |point: &Point| {
        // A rate over the last milliseconds of a run would mean nothing.
        let long = point.seconds >= enough;
        let rate = long.then(|| grouped(point.events_per_second()));
        rate.unwrap_or_else(|| "–".to_owned())
    };
    let row = |point: &Point| {
        let latency = point.latency;
        Second {
            cells: vec![
                format!("{:.0}", point.at_seconds),
                rate(point),
                milliseconds(latency.map(|l| l.p50_us)),
                milliseconds(latency.map(|l| l.p99_us)),
                milliseconds(latency.map(|l| l.p999_us)),
                milliseconds(latency.map(|l| l.max_us)),
                point.failed_requests.to_string(),
            ],
        }
    };
    summary.series.points.iter().map(row).collect()
}
