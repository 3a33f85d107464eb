//! Ten times the highest rate for ten minutes, while events are shipped.
//!
//! Requests above the capacity are refused with 503. Where ClickHouse takes less than is stored,
//! the log fills up.
//!
//! Every 200 is kept: at the end ClickHouse has as many rows as events were acknowledged.

use super::bench::Bench;
use super::engine::Engine;
use super::figure::{Figure, Unit};
use super::outcome::Outcome;
use super::overload::{ResidentMemory, stored_per_second};
use super::server::{Contestant, Server};
use crate::digits::grouped;
use crate::plan::{Mode, Plan};
use crate::summary::Summary;
use anyhow::Result;
use std::time::{Duration, Instant};

const CONNECTIONS: u16 = 1_024;
/// Connections of the closed loop that finds the highest rate.
const CONNECTIONS_PEAK: u16 = 64;
const TIMES: f64 = 10.0;
/// Size limit of the log: full within half a minute.
const LOG_BYTES_MAX: &str = "2GiB";
/// Interval at which tables are emptied, as no disk has space for ten minutes of events.
const EMPTY_AFTER: Duration = Duration::from_secs(30);

/// Runs the flood once, for as long as the soak.
///
/// # Errors
/// A server or the engine does not start, or a run fails.
pub fn measure(bench: &mut Bench<'_>) -> Result<Outcome> {
    let engine = Engine::start(
        bench,
        &bench.cpus.split_with_engine(Contestant::OURS.cpus()).engine,
    )?;
    let (server, plan) = engine.server_with_log(bench, Contestant::OURS, LOG_BYTES_MAX)?;
    let peak = bench.run(&Plan {
        connections: CONNECTIONS_PEAK,
        mode: Mode::Closed,
        ..plan.clone()
    })?;
    let events_per_second = (peak.events_per_second * TIMES).max(1.0);
    bench.say(&format!(
        "  {} events/s in a closed loop; {} for {} s",
        grouped(peak.events_per_second),
        grouped(events_per_second),
        bench.effort.soak.as_secs()
    ));
    let mut emptied = Instant::now();
    let flood = Plan {
        connections: CONNECTIONS,
        mode: Mode::Open { events_per_second },
        // Requests that a warm-up leaves unsent would be sent in the window and count for neither.
        warm_up: Duration::ZERO,
        duration: bench.effort.soak,
        ..plan
    };
    let flooded = bench.run_observed(&flood, &mut |_| {
        if emptied.elapsed() >= EMPTY_AFTER {
            emptied = Instant::now();
            // A dead engine shows in the rows that are not shipped.
            let _ = engine.empty();
        }
    })?;
    let acknowledged = peak.run.acknowledged_events + flooded.run.acknowledged_events;
    let (caught_up, rows) = shipped(bench, &server, acknowledged)?;
    let surplus = rows - acknowledged as f64;
    Ok(outcome(&peak, &flooded, caught_up, surplus))
}

/// Waits until everything is in ClickHouse; returns the time it took, and the number of rows sent
/// in total.
fn shipped(bench: &Bench<'_>, server: &Server, acknowledged: u64) -> Result<(Duration, f64)> {
    let ended = Instant::now();
    server.wait_until_shipped(bench, acknowledged)?;
    Ok((
        ended.elapsed(),
        server.metric("millrace_insert_rows_total")?,
    ))
}

fn outcome(peak: &Summary, flooded: &Summary, caught_up: Duration, surplus: f64) -> Outcome {
    let mut outcome = Outcome::with_columns(&["Millrace, one worker", "value"]);
    for figure in figures(peak, flooded, caught_up, surplus) {
        outcome.measured(&figure);
    }
    outcome.notes.push(format!(
        "{:.0} s of requests of 250 events over {CONNECTIONS} connections, {TIMES} times the \
         highest rate due, while the embedded engine takes what is stored; log in memory, \
         {LOG_BYTES_MAX} of room.",
        flooded.window_seconds
    ));
    if let Some(failure) = &flooded.first_failure {
        outcome.notes.push(format!("The first failure: {failure}"));
    }
    outcome
}

/// Figures of the table, in its order.
fn figures(peak: &Summary, flooded: &Summary, caught_up: Duration, surplus: f64) -> [Figure; 11] {
    let of = |name, unit, value, places| Figure {
        name,
        unit,
        value,
        places,
    };
    let memory = ResidentMemory::of(flooded);
    let refused = flooded.refusal.count;
    let others = flooded.window.failed_requests.saturating_sub(refused);
    let unsent = flooded.run.unsent_requests;
    let (p50_ms, p99_ms) = (flooded.refusal.p50_us / 1e3, flooded.refusal.p99_us / 1e3);
    let (most, growth) = (memory.most_mebibytes, memory.growth_mebibytes);
    let (highest, stored) = (peak.events_per_second, stored_per_second(flooded));
    [
        of(
            "highest rate, closed loop",
            Unit::EventsPerSecond,
            highest,
            0,
        ),
        of("stored", Unit::EventsPerSecond, stored, 0),
        of("refused", Unit::Requests, refused as f64, 0),
        of("other failures", Unit::Requests, others as f64, 0),
        of("due and not sent", Unit::Requests, unsent as f64, 0),
        of("503, p50", Unit::Milliseconds, p50_ms, 1),
        of("503, p99", Unit::Milliseconds, p99_ms, 1),
        of("resident, most", Unit::Mebibytes, most, 0),
        of(
            "resident, last third less middle",
            Unit::Mebibytes,
            growth,
            1,
        ),
        of(
            "all shipped after",
            Unit::Seconds,
            caught_up.as_secs_f64(),
            1,
        ),
        of("shipped and not acknowledged", Unit::Events, surplus, 0),
    ]
}
