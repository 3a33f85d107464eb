//! Small values that every row has: project, time, month.

use std::fmt;

/// Microseconds in a second.
const MICROS_PER_SECOND: i64 = 1_000_000;
/// Seconds in a day.
const SECONDS_PER_DAY: i64 = 86_400;

/// Id of a project, as ClickHouse stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProjectId(pub i64);

impl fmt::Display for ProjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An instant: microseconds since 1970-01-01T00:00:00Z, the resolution of `DateTime64(6)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Micros(pub i64);

impl Micros {
    /// An instant given in whole milliseconds; saturates at the ends.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// An instant given in whole seconds; saturates at the ends.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(MICROS_PER_SECOND))
    }

    /// Whole milliseconds since the epoch, rounded down.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// The instant moved by so many microseconds; saturates at the ends.
    #[must_use]
    pub const fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }
}

/// A calendar month in UTC, as `toYYYYMM` numbers it: the partition key of every table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Month(pub u32);

impl Month {
    /// Returns the month of an instant. Instants before 1970 count as January 1970.
    ///
    /// The day count is turned into a date by Howard Hinnant's `civil_from_days`
    /// (<https://howardhinnant.github.io/date_algorithms.html>).
    #[must_use]
    pub fn of(at: Micros) -> Self {
        let days = at.0.max(0) / (MICROS_PER_SECOND * SECONDS_PER_DAY);
        let shifted = days + 719_468;
        let era = shifted / 146_097;
        let day_of_era = shifted % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 {
            month_from_march + 3
        } else {
            month_from_march - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self(u32::try_from(year * 100 + month).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use jiff::civil::date;
    use proptest::prelude::*;

    #[test]
    fn month_boundaries_belong_to_the_later_month() {
        let table = [
            (0, 197_001),
            (2_678_399_999_999, 197_001),
            (2_678_400_000_000, 197_002),
            (951_782_400_000_000, 200_002), // 2000-02-29
            (951_868_800_000_000, 200_003),
            (1_795_189_098_000_000, 202_611),
            (-1, 197_001),
        ];
        for (micros, month) in table {
            assert_eq!(Month::of(Micros(micros)), Month(month), "{micros}");
        }
    }

    proptest! {
        #[test]
        fn month_agrees_with_jiff(seconds in 0_i64..253_402_300_799) {
            let at = date(1970, 1, 1).at(0, 0, 0, 0) + SignedDuration::from_secs(seconds);
            let expected = i32::from(at.year()) * 100 + i32::from(at.month());
            prop_assert_eq!(Month::of(Micros::from_seconds(seconds)).0, expected.unsigned_abs());
        }
    }
}
