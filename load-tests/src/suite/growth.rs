//! What an event costs as things grow: a line without a cliff is what one wants to see.
//!
//! Cost is the server's CPU time, which neighbours and a generator that is too slow do not change
//! much; the rate stands beside it.

use super::bench::Bench;
use super::outcome::{Line, Outcome, Plot};
use super::projects::Projects;
use super::server::{Beside, Contestant, Server};
use super::throughput::Load;
use crate::keys::Keys;
use crate::plan::Compression;
use crate::report::grouped;
use crate::shape::Shape;
use crate::summary::Summary;
use anyhow::Result;

/// What grows.
#[derive(Clone, Copy, Debug)]
pub enum Grows {
    /// Connections that send at once.
    Connections,
    /// Projects that requests are for in turn.
    Projects,
    /// Bytes of an event, about 250 kB a request where that is possible.
    EventBytes,
    /// Events of 998 B in a request.
    BatchEvents,
    /// Events of 136 B in a request.
    BatchEventsSmall,
}

impl Grows {
    fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Projects => "projects",
            Self::EventBytes => "bytes of an event",
            Self::BatchEvents | Self::BatchEventsSmall => "events of a request",
        }
    }

    /// What of the table is plotted: what would stay the same if growing cost nothing.
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

    /// Of a short run only those that are made quickly.
    fn values_of(self, quick: bool) -> &'static [u32] {
        let all = self.values();
        match self {
            Self::Projects if quick => all.get(..4).unwrap_or(all),
            _ => all,
        }
    }

    /// Large requests have few connections: what is in flight is bounded.
    fn load(self, value: u32) -> Load {
        let load = |batch_events: u32, event_bytes: usize, connections: u16| Load {
            batch_events,
            event_bytes,
            event_shape: Shape::Visits,
            connections,
            compression: Compression::None,
        };
        match self {
            Self::Connections => load(10, 998, u16::try_from(value).unwrap_or(u16::MAX)),
            Self::Projects => load(10, 998, 128),
            Self::EventBytes => load((250_000 / value).clamp(1, 250), value as usize, 16),
            Self::BatchEvents => load(value, 998, if value < 100 { 128 } else { 8 }),
            Self::BatchEventsSmall => load(value, 136, if value < 100 { 128 } else { 8 }),
        }
    }
}

/// One run for each value, each against a new server.
///
/// # Errors
/// A server does not start or a run fails.
pub fn measure(bench: &mut Bench<'_>, grows: Grows) -> Result<Outcome> {
    let mut outcome = Outcome::with_columns(&[
        grows.name(),
        "events/s",
        "requests/s",
        "MB/s",
        "CPU µs an event",
        "CPU ns a byte",
    ]);
    let mut points = Vec::new();
    let values = grows.values_of(bench.options.quick);
    let projects = match (grows, values.last()) {
        (Grows::Projects, Some(most)) => Some(Projects::make(bench, *most as usize)?),
        _ => None,
    };
    for value in values {
        let run = run_at(bench, grows, *value, projects.as_ref())?;
        bench.say(&format!(
            "  {value:>9} {}: {:>12} events/s",
            grows.name(),
            grouped(run.events_per_second)
        ));
        outcome.row(row(grows, *value, &run));
        if run.run.failed_requests > 0 {
            outcome.notes.push(refused(*value, &run));
        }
        let cost = match grows {
            Grows::EventBytes => cost_nanos_per_byte(grows, *value, &run),
            _ => cost_micros(&run),
        };
        if cost.is_finite() {
            points.push((f64::from(*value), cost));
        }
    }
    outcome.plot = Some(Plot {
        x: grows.name().to_owned(),
        y: grows.cost().to_owned(),
        log_scale: true,
        lines: vec![Line {
            name: "Millrace, log in memory".to_owned(),
            points,
        }],
    });
    Ok(outcome)
}

/// A run with so many or so much, against a new server.
fn run_at(
    bench: &Bench<'_>,
    grows: Grows,
    value: u32,
    projects: Option<&Projects>,
) -> Result<Summary> {
    let beside = projects.map_or_else(Beside::default, Projects::beside);
    let server = Server::start_beside(bench, Contestant::OURS, beside)?;
    let mut plan = bench.plan(&server, Contestant::OURS.cpus());
    grows.load(value).apply(&mut plan);
    if let Some(projects) = projects {
        let keys = projects.keys.iter().take(value as usize);
        plan.keys = Keys::new(keys.cloned().collect());
    }
    bench.run(&plan)
}

fn row(grows: Grows, value: u32, run: &Summary) -> [String; 6] {
    let bytes = grows.load(value).event_bytes as f64;
    [
        grouped(f64::from(value)),
        grouped(run.events_per_second),
        grouped(run.requests_per_second),
        format!("{:.0}", run.events_per_second * bytes / 1e6),
        format!("{:.3}", cost_micros(run)),
        format!("{:.3}", cost_nanos_per_byte(grows, value, run)),
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

fn cost_nanos_per_byte(grows: Grows, value: u32, run: &Summary) -> f64 {
    cost_micros(run) * 1000.0 / grows.load(value).event_bytes as f64
}

/// The server's CPU time per acknowledged event; `NaN` when there was none.
fn cost_micros(run: &Summary) -> f64 {
    match run.server {
        Some(server) if server.events_per_core_second > 0.0 => 1e6 / server.events_per_core_second,
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::EVENT_BYTES_MIN;

    #[test]
    fn every_point_is_a_plan_that_can_run() {
        for grows in [
            Grows::Connections,
            Grows::Projects,
            Grows::EventBytes,
            Grows::BatchEvents,
            Grows::BatchEventsSmall,
        ] {
            assert!(grows.values().is_sorted());
            for value in grows.values() {
                let load = grows.load(*value);
                let mut plan = crate::Plan::new("http://h", "k");
                load.apply(&mut plan);
                plan.check().unwrap();
                assert!(load.event_bytes >= EVENT_BYTES_MIN, "{load:?}");
            }
        }
    }
}
