//! The bounds on time, refusals and memory, and what was found.
//!
//! A bound that nothing was measured for is not kept: a server that answers nobody is quick.

use super::good::load::{Latency, Phase};
use super::report::{Memory, Report};
use super::weather::{Answers, Seconds, Spread, Weather};
use crate::report::mebibytes;
use serde::Serialize;

/// p99 under attack is at most so many times that of calm.
const P99_TIMES_MAX: f64 = 2.0;
/// Or this, where that is less: a few milliseconds of somebody else's work on the machine are no attack.
const P99_FLOOR_MS: f64 = 50.0;
/// Freshness under attack is at most so many seconds more.
const FRESHNESS_SECONDS_MAX: f64 = 5.0;
/// Requests under attack that may be told to come again later, of a hundred.
const REFUSED_PERCENT_MAX: f64 = 1.0;
/// What a server may take at its highest: bodies (1 GiB and half as much for parsers), answers (256 MiB), and itself.
pub(super) const MEMORY_BYTES_MAX: u64 = 2 << 30;
/// What may be left of it five seconds after an attack, beyond what there was in calm.
const MEMORY_KEPT_BYTES_MAX: u64 = 256 << 20;

/// A bound on time, refusals or memory and what was found.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// Its name.
    pub name: &'static str,
    /// In calm.
    pub calm: f64,
    /// Under attack.
    pub attack: f64,
    /// At most.
    pub max: f64,
    /// How often it was measured under attack.
    pub measured: u64,
}

impl Bound {
    /// Whether it was measured and kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.measured > 0 && self.attack <= self.max
    }
}

/// Kinds of service of the good tenant, and how often there was each under attack.
pub(super) fn served(report: &Report) -> [(&'static str, u64); 6] {
    [
        ("single events", load(report, |it| &it.singles).taken),
        ("batches", load(report, |it| &it.batches).taken),
        ("persons", report.persons.served),
        ("exports", report.exports.served),
        ("watermark", report.watermark.served),
        ("API", report.answers.served),
    ]
}

/// All of them.
pub(super) fn all(report: &Report) -> Vec<Bound> {
    let mut bounds = vec![
        latency(report, "single events: p99 ms, median of phases", |phase| {
            &phase.singles
        }),
        latency(report, "batches: p99 ms, median of phases", |phase| {
            &phase.batches
        }),
        freshness("persons: p95 s", &report.persons),
        freshness("exports: p95 s", &report.exports),
        freshness("watermark: p95 s", &report.watermark),
        freshness("API: p95 s", &report.answers),
        refused(
            "single events: refused %",
            load(report, |phase| &phase.singles),
        ),
        refused("batches: refused %", load(report, |phase| &phase.batches)),
        refused("persons: refused %", report.persons.answers),
        refused("exports: refused %", report.exports.answers),
        refused("API: refused %", report.answers.answers),
    ];
    bounds.extend(memory(&report.memory));
    bounds
}

fn of(report: &Report, weather: Weather) -> impl Iterator<Item = &Phase> {
    let phases = report.phases.iter();
    phases.filter(move |phase| phase.weather == weather)
}

/// Answers to a load under attack.
fn load(report: &Report, kind: fn(&Phase) -> &Latency) -> Answers {
    let answers = of(report, Weather::Attack).map(|phase| kind(phase).answers);
    answers.fold(Answers::default(), Answers::and)
}

fn latency(report: &Report, name: &'static str, kind: fn(&Phase) -> &Latency) -> Bound {
    let p99 = |weather| {
        let figures: Vec<f64> = of(report, weather)
            .map(|phase| kind(phase).p99_ms)
            .collect();
        Spread::of(&figures).p50
    };
    let calm = p99(Weather::Calm);
    // A phase in which nothing was taken has a p99 of nothing.
    let is_served = of(report, Weather::Attack).all(|phase| kind(phase).answers.taken > 0);
    Bound {
        name,
        calm,
        attack: p99(Weather::Attack),
        max: (calm * P99_TIMES_MAX).max(P99_FLOOR_MS),
        measured: if is_served {
            load(report, kind).taken
        } else {
            0
        },
    }
}

fn freshness(name: &'static str, seconds: &Seconds) -> Bound {
    Bound {
        name,
        calm: seconds.calm.p95,
        attack: seconds.attack.p95,
        max: seconds.calm.p95 + FRESHNESS_SECONDS_MAX,
        measured: seconds.attack.count as u64,
    }
}

fn refused(name: &'static str, answers: Answers) -> Bound {
    Bound {
        name,
        calm: 0.0,
        attack: answers.refused_percent(),
        max: REFUSED_PERCENT_MAX,
        measured: answers.taken + answers.refused,
    }
}

fn memory(memory: &[Memory]) -> [Bound; 2] {
    let calm_bytes = memory.first().map_or(0, |it| it.calm_bytes);
    let highest = |bytes: fn(&Memory) -> u64| memory.iter().map(bytes).max().unwrap_or_default();
    let bound = |name, bytes, bytes_max| Bound {
        name,
        calm: mebibytes(calm_bytes),
        attack: mebibytes(bytes),
        max: mebibytes(bytes_max),
        measured: memory.len() as u64,
    };
    [
        bound(
            "memory 5 s after: MiB",
            highest(|it| it.after_bytes),
            calm_bytes + MEMORY_KEPT_BYTES_MAX,
        ),
        bound(
            "memory, most: MiB",
            highest(|it| it.most_bytes),
            MEMORY_BYTES_MAX,
        ),
    ]
}
