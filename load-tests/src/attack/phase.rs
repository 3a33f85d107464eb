//! Phases of a run, and figures that are kept apart by phase.

use super::findings::lock;
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
    /// An attack has just ended.
    Settling,
    /// The run is over, or was stopped.
    Over,
}

impl PhaseKind {
    /// Returns true if the hostile tenant attacks.
    pub(super) const fn is_attack(self) -> bool {
        matches!(self, Self::Attack | Self::ExtraAttack)
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
            3 => PhaseKind::Settling,
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
            (PhaseKind::Calm, PhaseKind::Calm | PhaseKind::Over) => kept.calm.push(seconds),
            (PhaseKind::Calm, _)
            | (PhaseKind::ExtraAttack | PhaseKind::Settling | PhaseKind::Over, _) => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_from_calm_into_attack_counts_for_neither() {
        let samples = Samples::default();
        let (calm, attack) = (PhaseKind::Calm, PhaseKind::Attack);
        let (settling, over) = (PhaseKind::Settling, PhaseKind::Over);
        let extra = PhaseKind::ExtraAttack;
        for (began, ended) in [
            (calm, calm),
            (calm, over),
            (calm, attack),
            (attack, attack),
            (attack, settling),
            (attack, over),
            (settling, settling),
            (settling, calm),
            (settling, extra),
            (extra, extra),
            (extra, settling),
        ] {
            samples.note(began, ended, 1.0);
        }
        let seconds = samples.seconds();
        assert_eq!((seconds.calm.count, seconds.attack.count), (2, 3));
        assert_eq!(
            seconds.served, 7,
            "two were there when the attack came, and two are of an extra round"
        );
    }

    #[test]
    fn responses_count_under_attack_and_none_at_all_is_100_percent_refused() {
        let samples = Samples::default();
        assert_eq!(samples.seconds().answers.refused_percent(), 100.0);
        for (kind, is_refused) in [
            (PhaseKind::Calm, true),
            (PhaseKind::Attack, false),
            (PhaseKind::Attack, true),
            (PhaseKind::Attack, false),
            (PhaseKind::Attack, false),
            (PhaseKind::Over, true),
            (PhaseKind::ExtraAttack, true),
        ] {
            samples.answered(kind, is_refused);
        }
        let answers = samples.seconds().answers;
        assert_eq!((answers.taken, answers.refused), (3, 1));
        assert_eq!(answers.refused_percent(), 25.0);
    }

    #[test]
    fn percentiles_do_not_depend_on_the_order_of_figures() {
        let figures: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let spread = Spread::of(&figures);
        assert_eq!((spread.p50, spread.p95, spread.max), (50.0, 95.0, 100.0));
        assert_eq!(Spread::of(&[7.0]).p95, 7.0);
        assert_eq!(Spread::of(&[]), Spread::default());
    }
}
