//! What goes on: calm or an attack; and figures that are kept apart by it.

use super::tally::lock;
use serde::Serialize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

/// Whether somebody attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weather {
    /// Nobody.
    Calm,
    /// The hostile tenant, with all it has.
    Attack,
    /// An attack has just ended.
    Settling,
    /// The run is over, or was stopped.
    Over,
}

/// The weather now.
#[derive(Debug, Default)]
pub(super) struct Forecast(AtomicU8);

impl Forecast {
    pub(super) fn now(&self) -> Weather {
        match self.0.load(Ordering::Acquire) {
            0 => Weather::Calm,
            1 => Weather::Attack,
            2 => Weather::Settling,
            _ => Weather::Over,
        }
    }

    pub(super) fn set(&self, weather: Weather) {
        self.0.store(weather as u8, Ordering::Release);
    }

    pub(super) fn is_over(&self) -> bool {
        self.now() == Weather::Over
    }
}

/// Seconds of a kind, by the weather in which they began.
#[derive(Debug, Default)]
pub(super) struct Samples(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    calm: Vec<f64>,
    attack: Vec<f64>,
    served: u64,
    answers: Answers,
}

/// Seconds of a kind in calm and under attack.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Seconds {
    /// Alone.
    pub calm: Spread,
    /// Under attack.
    pub attack: Spread,
    /// How many began or ended under attack.
    pub served: u64,
    /// Requests under attack.
    pub answers: Answers,
}

/// Requests that were answered as they should be, and those that were told to come again later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answers {
    /// As they should be.
    pub taken: u64,
    /// With 503.
    pub refused: u64,
}

impl Answers {
    /// Refusals of a hundred; all of them where there were none, as nobody was served.
    #[must_use]
    pub fn refused_percent(self) -> f64 {
        match self.taken + self.refused {
            0 => 100.0,
            all => self.refused as f64 * 100.0 / all as f64,
        }
    }

    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            taken: self.taken + other.taken,
            refused: self.refused + other.refused,
        }
    }
}

/// Some of many figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// How many there are.
    pub count: usize,
    /// Half of them are not above it.
    pub p50: f64,
    /// All but one in twenty are not above it.
    pub p95: f64,
    /// The highest.
    pub max: f64,
}

impl Samples {
    /// Notes what began in some weather and ended in another. What began in calm and ended under attack
    /// is neither, nor is what began just after one.
    pub(super) fn note(&self, began: Weather, ended: Weather, seconds: f64) {
        let mut kept = lock(&self.0);
        kept.served += u64::from([began, ended].contains(&Weather::Attack));
        match (began, ended) {
            (Weather::Attack, _) => kept.attack.push(seconds),
            (Weather::Calm, Weather::Calm | Weather::Over) => kept.calm.push(seconds),
            (Weather::Calm, _) | (Weather::Settling | Weather::Over, _) => {}
        }
    }

    /// Counts an answer in some weather: only those under attack are judged.
    pub(super) fn answered(&self, weather: Weather, is_refused: bool) {
        if weather == Weather::Attack {
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
    /// Of figures in any order.
    #[must_use]
    pub fn of(figures: &[f64]) -> Self {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        // The smallest that so many of a hundred are not above.
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
    fn what_begins_in_calm_and_ends_under_attack_counts_for_neither() {
        let samples = Samples::default();
        let (calm, attack) = (Weather::Calm, Weather::Attack);
        let (settling, over) = (Weather::Settling, Weather::Over);
        for (began, ended) in [
            (calm, calm),
            (calm, over),
            (calm, attack),
            (attack, attack),
            (attack, settling),
            (attack, over),
            (settling, settling),
            (settling, calm),
        ] {
            samples.note(began, ended, 1.0);
        }
        let seconds = samples.seconds();
        assert_eq!((seconds.calm.count, seconds.attack.count), (2, 3));
        assert_eq!(seconds.served, 4, "one was there when the attack came");
    }

    #[test]
    fn answers_are_counted_under_attack_and_none_at_all_are_a_refusal() {
        let samples = Samples::default();
        assert_eq!(samples.seconds().answers.refused_percent(), 100.0);
        for (weather, is_refused) in [
            (Weather::Calm, true),
            (Weather::Attack, false),
            (Weather::Attack, true),
            (Weather::Attack, false),
            (Weather::Attack, false),
            (Weather::Over, true),
        ] {
            samples.answered(weather, is_refused);
        }
        let answers = samples.seconds().answers;
        assert_eq!((answers.taken, answers.refused), (3, 1));
        assert_eq!(answers.refused_percent(), 25.0);
    }

    #[test]
    fn a_spread_is_of_sorted_figures() {
        let figures: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let spread = Spread::of(&figures);
        assert_eq!((spread.p50, spread.p95, spread.max), (50.0, 95.0, 100.0));
        assert_eq!(Spread::of(&[7.0]).p95, 7.0);
        assert_eq!(Spread::of(&[]), Spread::default());
    }
}
