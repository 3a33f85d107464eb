//! Cost of an event as load parameters grow; the desired result is a line without a cliff.
//!
//! The cost is the server's CPU time, which neighbours and a slow generator hardly change; the rate
//! is shown beside it.

use super::bench::Bench;
use super::findings::{Cell, Findings};
use super::load::{Load, load};
use super::outcome::{Line, Plot};
use super::projects::Projects;
use super::server::{Contestant, Server, ServerOptions};
use crate::digits::grouped;
use crate::keys::Keys;
use crate::summary::Summary;
use anyhow::Result;

/// Parameter that grows.
#[derive(Clone, Copy, Debug)]
pub enum GrowthAxis {
    /// Number of concurrent connections.
    Connections,
    /// Number of projects that the requests address in turn.
    Projects,
    /// Size of an event in bytes, with about 250 kB per request where possible.
    EventBytes,
    /// Number of events of 998 B in a request.
    BatchEvents,
    /// Number of events of 136 B in a request.
    BatchEventsSmall,
}

impl GrowthAxis {
    fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Projects => "projects",
            Self::EventBytes => "bytes of an event",
            Self::BatchEvents | Self::BatchEventsSmall => "events of a request",
        }
    }

    /// Column of the table to plot: the one that would be constant if growth cost nothing.
    fn cost(self) -> &'static str {
        match self {
            Self::EventBytes => "CPU ns a byte",
            _ => "CPU µs an event",
        }
    }

    fn values(self) -> &'static [u32] {
        match self {
            Self::Connections => &[1, 4, 16, 64, 256, 1_024, 4_096],
            Self::Projects => &[1, 3, 10, 30, 100, 300, 1_000],
            Self::EventBytes => &[
                136, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000,
            ],
            Self::BatchEvents => &[1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000],
            Self::BatchEventsSmall => &[1, 10, 100, 1_000, 10_000, 20_000, 50_000],
        }
    }

    /// Values of a run; a quick one leaves out those that take long to prepare.
    fn values_of(self, quick: bool) -> &'static [u32] {
        let all = self.values();
        match self {
            Self::Projects if quick => all.get(..4).unwrap_or(all),
            _ => all,
        }
    }

    /// Load at a value. Large requests have few connections, which bounds the bytes in flight.
    fn load(self, value: u32) -> Load {
        match self {
            Self::Connections => load(10, 998, u16::try_from(value).unwrap_or(u16::MAX)),
            Self::Projects => load(10, 998, 128),
            Self::EventBytes => load((250_000 / value).clamp(1, 250), value as usize, 16),
            Self::BatchEvents => load(value, 998, if value < 100 { 128 } else { 8 }),
            Self::BatchEventsSmall => load(value, 136, if value < 100 { 128 } else { 8 }),
        }
    }
}

/// Measures one run per value, each against a new server.
///
/// # Errors
/// A server does not start or a run fails.
pub fn measure(bench: &mut Bench<'_>, axis: GrowthAxis) -> Result<Findings> {
    let mut findings = Findings::with_columns(&[
        axis.name(),
        "events/s",
        "requests/s",
        "MB/s",
        "CPU µs an event",
        "CPU ns a byte",
    ]);
    let mut points = Vec::new();
    let values = axis.values_of(bench.options.quick);
    let projects = match (axis, values.last()) {
        (GrowthAxis::Projects, Some(most)) => Some(Projects::make(bench, *most as usize)?),
        _ => None,
    };
    for value in values {
        let run = run_at(bench, axis, *value, projects.as_ref())?;
        bench.say(&format!(
            "  {value:>9} {}: {:>12} events/s",
            axis.name(),
            grouped(run.events_per_second)
        ));
        findings.row(row(axis, *value, &run));
        if run.run.failed_requests > 0 {
            findings.note(refused(*value, &run));
        }
        let cost = match axis {
            GrowthAxis::EventBytes => cost_nanos_per_byte(axis, *value, &run),
            _ => cost_micros(&run),
        };
        if cost.is_finite() {
            points.push((f64::from(*value), cost));
        }
    }
    findings.plot = Some(Plot::logarithmic(
        axis.name(),
        axis.cost(),
        vec![Line::new("Millrace, log in memory", points)],
    ));
    Ok(findings)
}

/// Runs the load of one value against a new server.
fn run_at(
    bench: &Bench<'_>,
    axis: GrowthAxis,
    value: u32,
    projects: Option<&Projects>,
) -> Result<Summary> {
    let options = projects.map_or_else(ServerOptions::default, Projects::server_options);
    let server = Server::start_with(bench, Contestant::OURS, options)?;
    let mut plan = bench.plan(&server, Contestant::OURS.cpus());
    axis.load(value).apply(&mut plan);
    if let Some(projects) = projects {
        let keys = projects.keys.iter().take(value as usize);
        plan.keys = Keys::new(keys.cloned().collect());
    }
    bench.run(&plan)
}

fn row(axis: GrowthAxis, value: u32, run: &Summary) -> [Cell; 6] {
    let bytes = axis.load(value).event_bytes as f64;
    [
        Cell::Grouped(f64::from(value)),
        Cell::Grouped(run.events_per_second),
        Cell::Grouped(run.requests_per_second),
        Cell::Decimals(run.events_per_second * bytes / 1e6, 0),
        Cell::Decimals(cost_micros(run), 3),
        Cell::Decimals(cost_nanos_per_byte(axis, value, run), 3),
    ]
}

fn refused(value: u32, run: &Summary) -> String {
    format!(
        "At {}: {} of {} requests were refused, first: {}",
        grouped(f64::from(value)),
        run.run.failed_requests,
        run.run.failed_requests + run.run.acknowledged_requests,
        run.first_failure.as_deref().unwrap_or_default()
    )
}

fn cost_nanos_per_byte(axis: GrowthAxis, value: u32, run: &Summary) -> f64 {
    cost_micros(run) * 1000.0 / axis.load(value).event_bytes as f64
}

/// CPU time of the server per acknowledged event in microseconds; `NaN` without any.
fn cost_micros(run: &Summary) -> f64 {
    match run.server {
        Some(server) if server.events_per_core_second > 0.0 => 1e6 / server.events_per_core_second,
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_shape::EVENT_BYTES_MIN;

    #[test]
    fn every_point_is_a_plan_that_can_run() {
        for axis in [
            GrowthAxis::Connections,
            GrowthAxis::Projects,
            GrowthAxis::EventBytes,
            GrowthAxis::BatchEvents,
            GrowthAxis::BatchEventsSmall,
        ] {
            assert!(axis.values().is_sorted());
            for value in axis.values() {
                let load = axis.load(*value);
                let mut plan = crate::Plan::new("http://h", "k");
                load.apply(&mut plan);
                plan.check().unwrap();
                assert!(load.event_bytes >= EVENT_BYTES_MIN, "{load:?}");
            }
        }
    }
}
