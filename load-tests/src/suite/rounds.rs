//! Rounds: one measurement several times, as a machine is slow for a while.

use super::interval::{Interval, median};

/// Results of rounds, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds<T>(Vec<T>);

impl<T> Rounds<T> {
    /// Starts without a round.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a round.
    pub fn push(&mut self, round: T) {
        self.0.push(round);
    }

    /// Results of all rounds.
    #[must_use]
    pub fn all(&self) -> &[T] {
        &self.0
    }

    /// Result of the last round.
    #[must_use]
    pub fn last(&self) -> Option<&T> {
        self.0.last()
    }

    /// Median of a value; `NaN` without any.
    #[must_use]
    pub fn median(&self, of: impl Fn(&T) -> f64) -> f64 {
        median(&self.0.iter().map(of).collect::<Vec<_>>())
    }

    /// Median of a value with its interval.
    #[must_use]
    pub fn interval(&self, of: impl Fn(&T) -> f64) -> Interval {
        Interval::of(&self.0.iter().map(of).collect::<Vec<_>>())
    }

    /// Highest of a value; `NaN` without any.
    #[must_use]
    pub fn highest(&self, of: impl Fn(&T) -> f64) -> f64 {
        self.0.iter().map(of).fold(f64::NAN, f64::max)
    }

    /// Median of the quotients of a value here and in `others`, round by round; `NaN` without any.
    #[must_use]
    pub fn median_ratio(&self, others: &Self, of: impl Fn(&T) -> f64) -> f64 {
        let pairs = self.0.iter().zip(&others.0);
        let ratios = pairs.map(|(own, other)| of(own) / of(other));
        median(&ratios.collect::<Vec<_>>())
    }
}

impl<T> Default for Rounds<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> FromIterator<T> for Rounds<T> {
    fn from_iter<I: IntoIterator<Item = T>>(rounds: I) -> Self {
        Self(rounds.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_made_round_by_round() {
        // The machine was half as fast in the second round, and a third as fast in the third.
        let ours: Rounds<f64> = [600.0, 300.0, 200.0].into_iter().collect();
        let theirs: Rounds<f64> = [1_200.0, 600.0, 400.0].into_iter().collect();
        assert_eq!(ours.median_ratio(&theirs, |rate| *rate), 0.5);
        assert_eq!(ours.highest(|rate| *rate), 600.0);
        assert!(Rounds::<f64>::new().highest(|rate| *rate).is_nan());
    }
}
