//! Phases of a run, and figures that are kept apart by phase.

#[cfg(test)]
mod tests;

use super::lock::lock;
use serde::Serialize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

/// Kind of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseKind {
    /// The good tenant is alone.
    Calm,
    /// The hostile tenant attacks with all tasks.
    Attack,
    /// Attack beyond the rounds that were asked for, to show that somebody is served: its times and
    /// refusals are not judged.
    ExtraAttack,
    /// The hostile tenant sends events of many months, and nothing else.
    Months,
    /// An attack has just ended.
    Settling,
    /// The run is over, or was stopped.
    Over,
}

impl PhaseKind {
    /// Returns true if the hostile tenant attacks with all tasks.
    pub(super) const fn is_attack(self) -> bool {
        matches!(self, Self::Attack | Self::ExtraAttack)
    }

    /// Returns true if the hostile tenant attacks with any task.
    pub(super) const fn has_attackers(self) -> bool {
        self.is_attack() || matches!(self, Self::Months)
    }
}

/// Kind of the phase that is running now.
#[derive(Debug, Default)]
pub(super) struct CurrentPhase(AtomicU8);

impl CurrentPhase {
    pub(super) fn now(&self) -> PhaseKind {
        match self.0.load(Ordering::Acquire) {
            0 => PhaseKind::Calm,
            1 => PhaseKind::Attack,
            2 => PhaseKind::ExtraAttack,
            3 => PhaseKind::Months,
            4 => PhaseKind::Settling,
            _ => PhaseKind::Over,
        }
    }

    pub(super) fn set(&self, kind: PhaseKind) {
        self.0.store(kind as u8, Ordering::Release);
    }

    pub(super) fn is_over(&self) -> bool {
        self.now() == PhaseKind::Over
    }
}

/// Durations in seconds, by the kind of the phase in which they began.
#[derive(Debug, Default)]
pub(super) struct Samples(Mutex<SampleSet>);

#[derive(Debug, Default)]
struct SampleSet {
    calm: Vec<f64>,
    attack: Vec<f64>,
    extra: Vec<f64>,
    months: Vec<f64>,
    served: u64,
    answers: ResponseCounts,
}

/// Durations in seconds, in calm and under attack.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Seconds {
    /// Durations in calm.
    pub calm: Spread,
    /// Durations under attack, without extra rounds.
    pub attack: Spread,
    /// Durations in extra rounds, which no bound judges.
    pub extra: Spread,
    /// Durations beside events of many months alone.
    pub months: Spread,
    /// Number of actions that began or ended under attack, in all rounds.
    pub served: u64,
    /// Responses under attack, without extra rounds.
    pub answers: ResponseCounts,
}

/// Number of responses by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResponseCounts {
    /// Responses as expected.
    pub taken: u64,
    /// Refusals with 503.
    pub refused: u64,
}

impl ResponseCounts {
    /// Percentage of refusals; 100 without any response, as nobody was served.
    #[must_use]
    pub fn refused_percent(self) -> f64 {
        match self.taken + self.refused {
            0 => 100.0,
            all => self.refused as f64 * 100.0 / all as f64,
        }
    }

    /// Sum of two counts.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            taken: self.taken + other.taken,
            refused: self.refused + other.refused,
        }
    }
}

/// Percentiles of many figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Number of figures.
    pub count: usize,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// Highest figure.
    pub max: f64,
}

impl Samples {
    /// Records a duration. An action that began in calm and ended under attack counts for neither,
    /// and so does one that began just after an attack.
    pub(super) fn note(&self, began: PhaseKind, ended: PhaseKind, seconds: f64) {
        let mut kept = lock(&self.0);
        kept.served += u64::from(began.is_attack() || ended.is_attack());
        match (began, ended) {
            (PhaseKind::Attack, _) => kept.attack.push(seconds),
            (PhaseKind::ExtraAttack, _) => kept.extra.push(seconds),
            (PhaseKind::Months, _) => kept.months.push(seconds),
            (PhaseKind::Calm, PhaseKind::Calm | PhaseKind::Over) => kept.calm.push(seconds),
            (PhaseKind::Calm | PhaseKind::Settling | PhaseKind::Over, _) => {}
        }
    }

    /// Counts a response; only those under attack are judged, and those of extra rounds are not.
    pub(super) fn answered(&self, kind: PhaseKind, is_refused: bool) {
        if kind == PhaseKind::Attack {
            let mut kept = lock(&self.0);
            kept.answers.taken += u64::from(!is_refused);
            kept.answers.refused += u64::from(is_refused);
        }
    }

    pub(super) fn seconds(&self) -> Seconds {
        let kept = lock(&self.0);
        Seconds {
            calm: Spread::of(&kept.calm),
            attack: Spread::of(&kept.attack),
            extra: Spread::of(&kept.extra),
            months: Spread::of(&kept.months),
            served: kept.served,
            answers: kept.answers,
        }
    }
}

impl Spread {
    /// Percentiles of figures in any order.
    #[must_use]
    pub fn of(figures: &[f64]) -> Self {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Nearest rank: the smallest figure that this percentage does not exceed.
        let at = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            sorted.get(rank).copied().unwrap_or_default()
        };
        Self {
            count: sorted.len(),
            p50: at(50),
            p95: at(95),
            max: at(100),
        }
    }
}
