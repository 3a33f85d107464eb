//! Ten times the highest rate for ten minutes, while events are shipped.
//!
//! Requests above the capacity are refused with 503. Where ClickHouse takes less than is stored,
//! the log fills up.
//!
//! Every 200 is kept: at the end ClickHouse has as many rows as events were acknowledged.

use super::bench::Bench;
use super::engine::Engine;
use super::figure::{FigureSpec, Unit};
use super::findings::Findings;
use super::overload::{ResidentMemory, other_failures, stored_per_second};
use super::rounds::Rounds;
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

/// The one round.
struct FloodRound {
    peak: Summary,
    flooded: Summary,
    /// Time until all was in ClickHouse.
    caught_up: Duration,
    /// Rows sent more than events acknowledged.
    surplus: f64,
}

type Spec = FigureSpec<FloodRound>;

/// Figures of the table, in its order.
const FIGURES: [FigureSpec<FloodRound>; 11] = [
    Spec::new(
        "highest rate, closed loop",
        Unit::EventsPerSecond,
        0,
        |it| it.peak.events_per_second,
    ),
    Spec::new("stored", Unit::EventsPerSecond, 0, |it| {
        stored_per_second(&it.flooded)
    }),
    Spec::new("refused", Unit::Requests, 0, |it| {
        it.flooded.refusal.count as f64
    }),
    Spec::new("other failures", Unit::Requests, 0, |it| {
        other_failures(&it.flooded)
    }),
    Spec::new("due and not sent", Unit::Requests, 0, |it| {
        it.flooded.run.unsent_requests as f64
    }),
    Spec::new("503, p50", Unit::Milliseconds, 1, |it| {
        it.flooded.refusal.p50_us / 1e3
    }),
    Spec::new("503, p99", Unit::Milliseconds, 1, |it| {
        it.flooded.refusal.p99_us / 1e3
    }),
    Spec::new("resident, most", Unit::Mebibytes, 0, |it| {
        ResidentMemory::of(&it.flooded).most_mebibytes
    }),
    Spec::new(
        "resident, last third less middle",
        Unit::Mebibytes,
        1,
        |it| ResidentMemory::of(&it.flooded).growth_mebibytes,
    ),
    Spec::new("all shipped after", Unit::Seconds, 1, |it| {
        it.caught_up.as_secs_f64()
    }),
    Spec::new("shipped and not acknowledged", Unit::Events, 0, |it| {
        it.surplus
    }),
];

/// Runs the flood once, for as long as the soak.
///
/// # Errors
/// A server or the engine does not start, or a run fails.
pub fn measure(bench: &mut Bench<'_>) -> Result<Findings> {
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
    Ok(findings(FloodRound {
        peak,
        flooded,
        caught_up,
        surplus: rows - acknowledged as f64,
    }))
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

fn findings(round: FloodRound) -> Findings {
    let mut findings = Findings::with_columns(&["Millrace, one worker", "value"]);
    findings.note(format!(
        "{:.0} s of requests of 250 events over {CONNECTIONS} connections, {TIMES} times the \
         highest rate due, while the embedded engine takes what is stored; log in memory \
         of at most {LOG_BYTES_MAX}.",
        round.flooded.window_seconds
    ));
    if let Some(failure) = &round.flooded.first_failure {
        findings.note(format!("The first failure: {failure}"));
    }
    findings.figures_of(&FIGURES, &Rounds::from_iter([round]));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::figure::tests::assert_committed;

    #[test]
    fn committed_results_have_these_figures() {
        assert_committed("flood", &FIGURES);
    }
}
