//! Rounds: one measurement several times, as a machine is slow for a while.

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

/// Median of some values; `NaN` without any. Of an even number it is the mean of the two middle
/// ones.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.len().saturating_sub(1) / 2, sorted.len() / 2);
    match (sorted.get(low), sorted.get(high)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        for (values, expected) in [
            (vec![3.0], 3.0),
            (vec![9.0, 1.0, 5.0], 5.0),
            (vec![4.0, 1.0, 2.0, 100.0], 3.0),
        ] {
            assert_eq!(median(&values), expected, "{values:?}");
        }
        assert!(median(&[]).is_nan());
    }

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
