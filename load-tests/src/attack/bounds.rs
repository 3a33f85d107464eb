//! Bounds on time, refusals and memory, with the figures measured for them.
//!
//! A bound without a measurement is not kept: a server that answers nobody is quick.

use super::good_tenant::load::{Latency, PhaseReport};
use super::operation_times::OperationTimes;
use super::phase::{PhaseKind, ResponseCounts, Seconds, Spread};
use super::report::{MEMORY_BYTES_MAX, Memory, Report};
use super::subject::ENGINE_MEMORY_BYTES;
use crate::report::mebibytes;
use serde::Serialize;

/// Highest ratio of p99 under attack to p99 in calm.
const P99_TIMES_MAX: f64 = 2.0;
/// Lower limit of the bound on p99 (decision 0135): a few milliseconds of other work are no attack.
const P99_FLOOR_MS: f64 = 50.0;
/// Highest difference of freshness under attack to freshness in calm.
const FRESHNESS_SECONDS_MAX: f64 = 5.0;
/// Highest percentage of requests that may be refused with 503 under attack.
const REFUSED_PERCENT_MAX: f64 = 1.0;
/// Time beyond that which the API promises: its clock starts at the head of a request, and the
/// sender's before the connection.
const API_SLACK_SECONDS: f64 = 1.0;
/// Memory that may stay in use five seconds after an attack, beyond the memory in calm.
const MEMORY_KEPT_BYTES_MAX: u64 = 256 << 20;

/// A bound on time, refusals or memory, with the figure measured for it.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// Name of the bound.
    pub name: &'static str,
    /// Figure in calm.
    pub calm: f64,
    /// Figure under attack.
    pub attack: f64,
    /// Highest figure allowed under attack.
    pub max: f64,
    /// Number of measurements under attack.
    pub measured: u64,
}

impl Bound {
    /// Returns true if the bound was measured and kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.measured > 0 && self.attack <= self.max
    }
}

impl Report {
    /// Kinds of service that the good tenant never got under attack.
    #[must_use]
    pub fn unserved(&self) -> Vec<&'static str> {
        let served = served(self).into_iter();
        let none = served.filter(|(_, times)| *times == 0);
        none.map(|(name, _)| name).collect()
    }

    /// Bounds that were not kept; meaningful only on a machine without other load.
    #[must_use]
    pub fn slow(&self) -> Vec<Bound> {
        let bounds = self.bounds().into_iter();
        bounds.filter(|bound| !bound.is_kept()).collect()
    }

    /// All bounds on time, refusals and remaining memory.
    #[must_use]
    pub fn bounds(&self) -> Vec<Bound> {
        all(self)
    }
}

/// Kinds of service of the good tenant, each with how often it was given under attack.
fn served(report: &Report) -> [(&'static str, u64); 6] {
    [
        ("single events", load(report, |it| &it.singles).taken),
        ("batches", load(report, |it| &it.batches).taken),
        ("persons", report.persons.served),
        ("exports", report.exports.served),
        ("watermark", report.watermark.served),
        ("API", report.answers.served),
    ]
}

/// All bounds of an attack.
fn all(report: &Report) -> Vec<Bound> {
    let mut bounds = vec![
        latency(report, "single events: p99 ms, median of phases", |phase| {
            &phase.singles
        }),
        latency(report, "batches: p99 ms, median of phases", |phase| {
            &phase.batches
        }),
        freshness("persons: p95 s", &report.persons, |it| it.attack),
        freshness("exports: p95 s", &report.exports, |it| it.attack),
        freshness("watermark: p95 s", &report.watermark, |it| it.attack),
        freshness("API: p95 s", &report.answers, |it| it.attack),
        refused(
            "single events: refused %",
            asked_load(report, |phase| &phase.singles),
        ),
        refused(
            "batches: refused %",
            asked_load(report, |phase| &phase.batches),
        ),
        refused("persons: refused %", report.persons.answers),
        refused("exports: refused %", report.exports.answers),
        refused("API: refused %", report.answers.answers),
    ];
    if phases_of(report, PhaseKind::Months).next().is_some() {
        let name = "watermark beside many months: p95 s";
        bounds.push(freshness(name, &report.watermark, |it| it.months));
    }
    bounds.extend(report.latest_operation.map(answered));
    bounds.extend(memory(&report.memory));
    bounds
}

/// Responses to a load under attack, in all rounds.
fn load(report: &Report, kind: fn(&PhaseReport) -> &Latency) -> ResponseCounts {
    let attacks = report.phases.iter().filter(|phase| phase.kind.is_attack());
    sum(attacks, kind)
}

/// Responses to a load in the rounds that were asked for: extra ones last longer, and are there
/// only since something was missing.
fn asked_load(report: &Report, kind: fn(&PhaseReport) -> &Latency) -> ResponseCounts {
    sum(phases_of(report, PhaseKind::Attack), kind)
}

fn sum<'a>(
    phases: impl Iterator<Item = &'a PhaseReport>,
    kind: fn(&PhaseReport) -> &Latency,
) -> ResponseCounts {
    let answers = phases.map(|phase| kind(phase).answers);
    answers.fold(ResponseCounts::default(), ResponseCounts::and)
}

fn phases_of(report: &Report, kind: PhaseKind) -> impl Iterator<Item = &PhaseReport> {
    let phases = report.phases.iter();
    phases.filter(move |phase| phase.kind == kind)
}

fn latency(report: &Report, name: &'static str, kind: fn(&PhaseReport) -> &Latency) -> Bound {
    let p99 = |during| {
        let figures = phases_of(report, during).map(|phase| kind(phase).p99_ms);
        Spread::of(&figures.collect::<Vec<f64>>()).p50
    };
    let calm = p99(PhaseKind::Calm);
    // A phase without accepted requests has a p99 of zero, and kept them waiting past any bound.
    let mut attacks = phases_of(report, PhaseKind::Attack);
    let is_served = attacks.all(|phase| kind(phase).answers.taken > 0);
    Bound {
        name,
        calm,
        attack: match is_served {
            true => p99(PhaseKind::Attack),
            false => f64::INFINITY,
        },
        max: (calm * P99_TIMES_MAX).max(P99_FLOOR_MS),
        measured: load(report, kind).taken,
    }
}

fn freshness(name: &'static str, seconds: &Seconds, during: fn(&Seconds) -> Spread) -> Bound {
    let attack = during(seconds);
    Bound {
        name,
        calm: seconds.calm.p95,
        attack: attack.p95,
        max: seconds.calm.p95 + FRESHNESS_SECONDS_MAX,
        measured: attack.count as u64,
    }
}

fn refused(name: &'static str, answers: ResponseCounts) -> Bound {
    Bound {
        name,
        calm: 0.0,
        attack: answers.refused_percent(),
        max: REFUSED_PERCENT_MAX,
        measured: answers.taken + answers.refused,
    }
}

/// The slowest response to a hostile operation in the rounds that were asked for, also one that was
/// not waited for any longer.
fn answered(times: OperationTimes) -> Bound {
    Bound {
        name: "hostile operations: slowest s",
        calm: 0.0,
        attack: times.max_seconds(),
        max: times.promised_seconds + API_SLACK_SECONDS,
        measured: times.count.into(),
    }
}

fn memory(memory: &[Memory]) -> [Bound; 3] {
    let first = |bytes: fn(&Memory) -> u64| memory.first().map_or(0, bytes);
    let highest = |bytes: fn(&Memory) -> u64| memory.iter().map(bytes).max().unwrap_or_default();
    let bound = |name, calm_bytes, bytes, bytes_max| Bound {
        name,
        calm: mebibytes(calm_bytes),
        attack: mebibytes(bytes),
        max: mebibytes(bytes_max),
        measured: memory.len() as u64,
    };
    let calm_bytes = first(|it| it.calm_bytes);
    let engine_calm_bytes = first(|it| it.engine_calm_bytes);
    [
        bound(
            "memory 5 s after: MiB",
            calm_bytes,
            highest(|it| it.after_bytes),
            calm_bytes + MEMORY_KEPT_BYTES_MAX,
        ),
        bound(
            "memory, most: MiB",
            calm_bytes,
            highest(|it| it.most_bytes),
            MEMORY_BYTES_MAX,
        ),
        // Its limit counts what it allocates, and not its code.
        bound(
            "engine's memory, most: MiB",
            engine_calm_bytes,
            highest(|it| it.engine_most_bytes),
            ENGINE_MEMORY_BYTES + engine_calm_bytes,
        ),
    ]
}
