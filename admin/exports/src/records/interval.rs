//! Intervals of exports, and their windows.

use millrace_catalog::entities::batch_exports as exports;
use millrace_catalog::{CatalogError, UtcTime};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A minute, in microseconds.
const MINUTE_MICROS: i64 = 60 * 1_000_000;
/// Weeks begin on Sunday: 1970-01-04 was one.
const FIRST_SUNDAY_MICROS: i64 = 3 * 24 * 60 * MINUTE_MICROS;
/// Shortest interval that is given in minutes.
const MINUTES_MIN: u8 = 5;
/// Longest interval that is given in minutes; an hour has its own name.
const MINUTES_MAX: u8 = 59;

/// Length of an export's windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportInterval {
    /// `hour`.
    Hour,
    /// `day`.
    Day,
    /// `week`.
    Week,
    /// `every N minutes`, with N from 5 to 59.
    Minutes(u8),
}

/// Error: a text is no interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("give hour, day, week or every N minutes, with N from {MINUTES_MIN} to {MINUTES_MAX}")]
pub struct IntervalError;

impl ExportInterval {
    /// All intervals.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let minutes = (MINUTES_MIN..=MINUTES_MAX).map(Self::Minutes);
        [Self::Hour, Self::Day, Self::Week]
            .into_iter()
            .chain(minutes)
    }

    /// Reads the interval of a stored export.
    ///
    /// # Errors
    ///
    /// [`CatalogError::WrongInterval`]: the text was checked when it was stored, and was changed
    /// since, or a later version stored it. Windows of another length would be exported twice or
    /// not at all, so there is no default.
    pub fn of(export: &exports::Model) -> Result<Self, CatalogError> {
        Self::stored(&export.interval).ok_or_else(|| CatalogError::WrongInterval {
            export_id: export.id,
            interval: export.interval.clone(),
        })
    }

    /// Reads an interval in the form in which it is stored, the only one that the planner's
    /// statement knows; `None` if it is not known.
    pub(super) fn stored(text: &str) -> Option<Self> {
        let interval: Self = text.parse().ok()?;
        (interval.to_string() == text).then_some(interval)
    }

    /// Length of a window, in microseconds.
    #[must_use]
    pub const fn micros(self) -> i64 {
        let minutes = match self {
            Self::Hour => 60,
            Self::Day => 24 * 60,
            Self::Week => 7 * 24 * 60,
            Self::Minutes(minutes) => minutes as i64,
        };
        minutes * MINUTE_MICROS
    }

    /// Start of the window that contains an instant. Windows are aligned in UTC: hours and days as
    /// they are, weeks from Sunday on, minutes as they have been counted since 1970.
    #[must_use]
    pub const fn window_start(self, at: UtcTime) -> UtcTime {
        let origin = match self {
            Self::Week => FIRST_SUNDAY_MICROS,
            _ => 0,
        };
        let since = at.0.saturating_sub(origin);
        UtcTime(at.0.saturating_sub(since.rem_euclid(self.micros())))
    }

    /// End of the window that contains an instant.
    #[must_use]
    pub const fn window_end(self, at: UtcTime) -> UtcTime {
        self.window_start(at).plus_micros(self.micros())
    }
}

impl FromStr for ExportInterval {
    type Err = IntervalError;

    fn from_str(text: &str) -> Result<Self, IntervalError> {
        match text {
            "hour" => return Ok(Self::Hour),
            "day" => return Ok(Self::Day),
            "week" => return Ok(Self::Week),
            _ => {}
        }
        let number = text
            .strip_prefix("every ")
            .and_then(|rest| rest.strip_suffix(" minutes"))
            .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|number| number.parse().ok());
        match number {
            Some(minutes @ MINUTES_MIN..=MINUTES_MAX) => Ok(Self::Minutes(minutes)),
            _ => Err(IntervalError),
        }
    }
}

impl fmt::Display for ExportInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hour => f.write_str("hour"),
            Self::Day => f.write_str("day"),
            Self::Week => f.write_str("week"),
            Self::Minutes(minutes) => write!(f, "every {minutes} minutes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_and_written() {
        let table = [
            ("hour", Some(ExportInterval::Hour)),
            ("day", Some(ExportInterval::Day)),
            ("week", Some(ExportInterval::Week)),
            ("every 5 minutes", Some(ExportInterval::Minutes(5))),
            ("every 59 minutes", Some(ExportInterval::Minutes(59))),
            ("every 4 minutes", None),
            ("every 60 minutes", None),
            ("every 500 minutes", None),
            ("every -5 minutes", None),
            ("every +5 minutes", None),
            ("every minutes", None),
            ("every 5 hours", None),
            ("Hour", None),
            ("month", None),
            ("", None),
        ];
        for (text, interval) in table {
            assert_eq!(text.parse().ok(), interval, "{text}");
            if let Some(interval) = interval {
                assert_eq!(interval.to_string(), text);
            }
        }
        assert_eq!(ExportInterval::Hour.micros(), 3_600_000_000);
        assert_eq!(ExportInterval::Minutes(5).micros(), 300_000_000);
    }

    #[test]
    fn an_interval_is_stored_in_one_form() {
        for interval in ExportInterval::all() {
            let text = interval.to_string();
            assert_eq!(ExportInterval::stored(&text), Some(interval));
        }
        // Three by name, and from 5 to 59 minutes.
        assert_eq!(ExportInterval::all().count(), 3 + 55);
        let other_form = "every 05 minutes";
        assert_eq!(
            other_form.parse::<ExportInterval>(),
            Ok(ExportInterval::Minutes(5))
        );
        for text in [other_form, "fortnight", "Hour", ""] {
            assert_eq!(ExportInterval::stored(text), None, "{text}");
        }
    }

    #[test]
    fn windows_are_aligned_in_utc() {
        // A Friday.
        let at = UtcTime(1_795_185_487_500_000);
        assert_eq!(at.to_string(), "2026-11-20T14:38:07.500000Z");
        let table = [
            (
                ExportInterval::Hour,
                "2026-11-20T14:00:00Z",
                "2026-11-20T15:00:00Z",
            ),
            (
                ExportInterval::Day,
                "2026-11-20T00:00:00Z",
                "2026-11-21T00:00:00Z",
            ),
            (
                ExportInterval::Week,
                "2026-11-15T00:00:00Z",
                "2026-11-22T00:00:00Z",
            ),
            (
                ExportInterval::Minutes(5),
                "2026-11-20T14:35:00Z",
                "2026-11-20T14:40:00Z",
            ),
        ];
        for (interval, start, end) in table {
            let window = (interval.window_start(at), interval.window_end(at));
            assert_eq!(
                (window.0.to_string(), window.1.to_string()),
                (start.to_owned(), end.to_owned())
            );
            assert_eq!(
                interval.window_start(window.0),
                window.0,
                "a start is in its window"
            );
            assert_eq!(
                interval.window_start(window.1),
                window.1,
                "an end is in the next one"
            );
        }
        let before_1970 = UtcTime(-1);
        assert_eq!(ExportInterval::Hour.window_end(before_1970), UtcTime(0));
    }
}
