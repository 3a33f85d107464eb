//! Median of rounds with the interval that they cover.

/// Text of a value that is not there.
const ABSENT: &str = "–";

/// Median of some values with the lowest and the highest.
///
/// Of `n` rounds, the interval holds the true median with a probability of `1 - 2^(1-n)`: 94 % of
/// five.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Value in the middle; `NaN` without any.
    pub median: f64,
    /// Lowest value.
    pub lowest: f64,
    /// Highest value.
    pub highest: f64,
}

impl Interval {
    /// Interval of some values.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        Self {
            median: median(values),
            lowest: values.iter().copied().fold(f64::NAN, f64::min),
            highest: values.iter().copied().fold(f64::NAN, f64::max),
        }
    }

    /// Median and interval as text, such as `5 (4 to 9)`; one value stands alone.
    #[must_use]
    pub fn text(self, write: impl Fn(f64) -> String) -> String {
        if !self.median.is_finite() {
            return ABSENT.to_owned();
        }
        let (median, range) = (write(self.median), self.range_text(write));
        if range == median {
            return median;
        }
        format!("{median} ({range})")
    }

    /// Interval as text, such as `4 to 9`; one value stands alone.
    #[must_use]
    pub fn range_text(self, write: impl Fn(f64) -> String) -> String {
        if !self.median.is_finite() {
            return ABSENT.to_owned();
        }
        let (lowest, highest) = (write(self.lowest), write(self.highest));
        if lowest == highest {
            return lowest;
        }
        format!("{lowest} to {highest}")
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
    fn an_interval_is_written_behind_its_median() {
        let write = |value: f64| format!("{value:.0}");
        let table: [(&[f64], &str, &str); 4] = [
            (&[4.0, 9.0, 5.0], "5 (4 to 9)", "4 to 9"),
            (&[5.0], "5", "5"),
            (&[5.1, 4.9], "5", "5"),
            (&[], "–", "–"),
        ];
        for (values, text, range) in table {
            let interval = Interval::of(values);
            assert_eq!(interval.text(write), text, "{values:?}");
            assert_eq!(interval.range_text(write), range, "{values:?}");
        }
    }
}
