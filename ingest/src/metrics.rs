//! Metrics of this crate: names, descriptions, and handles that need no look-up.
//!
//! A handle of the `metrics` crate is found by hashing its name and labels; the hot path keeps
//! the handles instead, one set per core ([`CoreMetrics`]), each made when it is first used.

use crate::request::route::Route;
use http::StatusCode;
use metrics::{Counter, Gauge, Histogram, Unit, counter, gauge, histogram};
use millrace_rows::Micros;
use std::cell::{Cell, OnceCell, RefCell};
use std::time::Duration;

const REQUESTS: &str = "millrace_ingest_requests_total";
const EVENTS: &str = "millrace_ingest_events_total";
const WARNINGS: &str = "millrace_ingest_warnings_total";
const RESENT: &str = "millrace_ingest_requests_resent_total";
const BODY_BYTES: &str = "millrace_ingest_body_bytes_total";
const DECODED_BYTES: &str = "millrace_ingest_decoded_bytes_total";
const STAGE: &str = "millrace_ingest_stage_seconds";
const CONNECTIONS: &str = "millrace_ingest_connections";
const CONNECTIONS_REFUSED: &str = "millrace_ingest_connections_refused_total";
const TIMEOUTS: &str = "millrace_ingest_timeouts_total";
const IN_FLIGHT_BYTES: &str = "millrace_ingest_in_flight_bytes";
const READY: &str = "millrace_ready";
const WATERMARK_AGE: &str = "millrace_watermark_age_seconds";
const CLOCK_SKEW: &str = "millrace_clock_skew_seconds";
const HISTORICAL_REFUSED: &str = "millrace_historical_events_refused_total";
const HISTORICAL_HELD: &str = "millrace_quota_leased_events";
const PANICS: &str = "millrace_ingest_panics_total";

/// Requests a second and core whose stages are timed. A histogram keeps every sample until it is
/// rendered or tidied; above this rate more samples would add nothing.
const TIMED_PER_SECOND_MAX: u32 = 1_000;

/// Names and explains every metric; called once, after a recorder is installed.
pub fn describe() {
    use metrics::{describe_counter as c, describe_gauge as g, describe_histogram as h};
    c!(REQUESTS, "Requests answered, by path and status");
    c!(
        EVENTS,
        "Events in acknowledged requests, by outcome, and rejected ones by code"
    );
    c!(WARNINGS, "Warnings given with stored events");
    c!(
        RESENT,
        "Requests recognised as sent before and not stored again"
    );
    c!(BODY_BYTES, Unit::Bytes, "Bytes of bodies as they were sent");
    c!(
        DECODED_BYTES,
        Unit::Bytes,
        "Bytes of bodies after decompression"
    );
    h!(
        STAGE,
        Unit::Seconds,
        "Time of a request's stages; at most 1000 requests a second and core are timed"
    );
    g!(CONNECTIONS, "Open connections");
    c!(
        CONNECTIONS_REFUSED,
        "Connections refused at the limit, by limit; of `idle`, ended there for others"
    );
    c!(
        TIMEOUTS,
        "Connections closed for slowness, by what was slow"
    );
    g!(
        IN_FLIGHT_BYTES,
        Unit::Bytes,
        "Bytes of bodies and of long responses in memory"
    );
    c!(
        HISTORICAL_REFUSED,
        "Events of imports that were refused beyond a limit, by code"
    );
    g!(
        HISTORICAL_HELD,
        "Events of imports that this node may accept without asking the catalog, of all projects"
    );
    c!(PANICS, "Requests that panicked; each ended alone");
    // A counter that appears with its first count does not increase.
    counter!(PANICS).increment(0);
    g!(READY, "1 when the process accepts events, else 0");
    g!(
        WATERMARK_AGE,
        Unit::Seconds,
        "Age of this node's watermark: all that arrived before it is in ClickHouse"
    );
    g!(
        CLOCK_SKEW,
        Unit::Seconds,
        "Clock skew behind the watermark, while the clock is behind"
    );
}

/// Counts events of imports that were not admitted.
pub fn historical_refused(code: &'static str, events: u32) {
    counter!(HISTORICAL_REFUSED, "code" => code).increment(u64::from(events));
}

/// Sets the gauge of the events of imports that this node may admit without asking, or is storing.
pub fn historical_held(events: i64) {
    gauge!(HISTORICAL_HELD).set(events as f64);
}

/// Counts a request that panicked.
#[cold]
pub fn panicked() {
    counter!(PANICS).increment(1);
}

/// Sets the gauge of the watermark's age by the clock.
pub fn watermark_age(now: Micros, watermark: Micros) {
    let age = now.0.saturating_sub(watermark.0).max(0);
    gauge!(WATERMARK_AGE).set(age as f64 / 1e6);
}

/// Sets the gauge of the seconds by which the clock is behind the watermark; 0 when it is not.
pub fn clock_skew(seconds: i64) {
    gauge!(CLOCK_SKEW).set(seconds as f64);
}

/// Statuses that have a slot of their own in the table of counters.
const STATUSES: [u16; 18] = [
    200, 204, 304, 400, 401, 403, 404, 405, 408, 413, 414, 415, 429, 431, 500, 501, 503, 0,
];

/// Stage of a request that is timed.
#[derive(Clone, Copy, Debug)]
pub enum Stage {
    /// Time from the head to the last byte of the body.
    Body,
    /// Time of decompression.
    Decode,
    /// Time of parsing, validation and encoding.
    Parse,
    /// Time from submission to the acknowledgement that the rows are on disk.
    Commit,
}

// === impl Stage ===

impl Stage {
    const ALL: [Self; 4] = [Self::Body, Self::Decode, Self::Parse, Self::Commit];

    /// Name of the stage in metrics and traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Decode => "decode",
            Self::Parse => "parse",
            Self::Commit => "commit",
        }
    }
}

/// Metric handles of one core.
pub struct CoreMetrics {
    requests: [[OnceCell<Counter>; STATUSES.len()]; Route::COUNT],
    accepted: Counter,
    rejected: RefCell<Vec<(&'static str, Counter)>>,
    warnings: Counter,
    resent: Counter,
    body_bytes: Counter,
    decoded_bytes: Counter,
    stages: [Histogram; 4],
    second: Cell<i64>,
    timed: Cell<u32>,
}

impl CoreMetrics {
    /// Makes handles of the recorder that is installed now.
    pub fn of_recorder() -> Self {
        Self {
            requests: Default::default(),
            accepted: counter!(EVENTS, "outcome" => "accepted", "code" => ""),
            rejected: RefCell::default(),
            warnings: counter!(WARNINGS),
            resent: counter!(RESENT),
            body_bytes: counter!(BODY_BYTES),
            decoded_bytes: counter!(DECODED_BYTES),
            stages: Stage::ALL.map(|stage| histogram!(STAGE, "stage" => stage.name())),
            second: Cell::new(0),
            timed: Cell::new(0),
        }
    }

    /// Counts a response.
    pub fn answered(&self, route: Route, status: StatusCode) {
        let code = status.as_u16();
        let column = STATUSES
            .iter()
            .position(|known| *known == code)
            .unwrap_or(STATUSES.len() - 1);
        let Some(cell) = self
            .requests
            .get(route.index())
            .and_then(|row| row.get(column))
        else {
            return;
        };
        cell.get_or_init(
            || counter!(REQUESTS, "path" => route.name(), "status" => code.to_string()),
        )
        .increment(1);
    }

    /// Counts a body.
    pub fn body(&self, sent_bytes: usize, decoded_bytes: usize) {
        self.body_bytes.increment(sent_bytes as u64);
        self.decoded_bytes.increment(decoded_bytes as u64);
    }

    /// Counts the events of an acknowledged request.
    pub fn accepted(&self, events: u32) {
        self.accepted.increment(u64::from(events));
    }

    /// Counts rejected events of one code.
    pub fn rejected(&self, code: &'static str, events: u32) {
        let mut rejected = self.rejected.borrow_mut();
        let index = rejected.iter().position(|(known, _)| *known == code);
        let index = index.unwrap_or_else(|| {
            rejected.push((
                code,
                counter!(EVENTS, "outcome" => "rejected", "code" => code),
            ));
            rejected.len() - 1
        });
        if let Some((_, counter)) = rejected.get(index) {
            counter.increment(u64::from(events));
        }
    }

    /// Counts warnings of an acknowledged request.
    pub fn warned(&self, warnings: u32) {
        self.warnings.increment(u64::from(warnings));
    }

    /// Counts a request that was not stored because it had been before.
    pub fn resent(&self) {
        self.resent.increment(1);
    }

    /// Returns true if the stages of a request that arrived in this second are to be timed.
    pub fn times(&self, second: i64) -> bool {
        if self.second.replace(second) != second {
            self.timed.set(0);
        }
        let timed = self.timed.get();
        self.timed.set(timed.saturating_add(1));
        timed < TIMED_PER_SECOND_MAX
    }

    /// Records how long a stage took.
    pub fn took(&self, stage: Stage, time: Duration) {
        if let Some(histogram) = self.stages.get(stage as usize) {
            histogram.record(time);
        }
    }
}

/// Gauge of open connections.
pub fn connections() -> Gauge {
    gauge!(CONNECTIONS)
}

/// Gauge of bytes of bodies in memory.
pub fn in_flight_bytes() -> Gauge {
    gauge!(IN_FLIGHT_BYTES)
}

/// Gauge of readiness.
pub fn ready() -> Gauge {
    gauge!(READY)
}

/// Counts a connection refused at a limit.
pub fn connection_refused(limit: &'static str) {
    counter!(CONNECTIONS_REFUSED, "limit" => limit).increment(1);
}

/// Counts connections that were ended for others, as they waited for a request.
pub fn connections_evicted(count: usize) {
    counter!(CONNECTIONS_REFUSED, "limit" => "idle").increment(count as u64);
}

/// Counts a connection closed for slowness.
pub fn timed_out(what: &'static str) {
    counter!(TIMEOUTS, "what" => what).increment(1);
}
