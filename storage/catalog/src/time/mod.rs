//! Points in time as the catalog stores them, and their texts.
//!
//! Texts are read by grammars of our own, and the calendar behind them is jiff's: its parsers
//! know neither weeks nor days of the year, and accept annotations of zones that we reject. Its
//! civil times reach to the end of the year 9999, its timestamps only to the day before.

mod cursor;
mod iso8601;
mod local;
mod rfc3339;
#[cfg(test)]
mod tests;
mod wire;

use jiff::civil::DateTime;
use local::{NANOS_PER_MICRO, utc_datetime};
use millrace_rows::Micros;
use sea_orm::DeriveValueType;
use std::fmt;
use std::ops::Range;

/// Instants of the years 0 to 9999, in nanoseconds since 1970: others have no year of four digits.
const WRITABLE_NANOS: Range<i128> = -62_167_219_200_000_000_000..253_402_300_800_000_000_000;

/// Point in time in microseconds since 1970-01-01T00:00:00Z, stored as a `BIGINT`.
///
/// SQLite has no type for time, and the text that drivers write there (RFC 3339 with as many
/// digits as needed) does not sort. An integer sorts and compares alike in both databases.
///
/// Outside it is ISO 8601 in UTC with `Z`, and with microseconds only when there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, DeriveValueType)]
pub struct UtcTime(pub i64);

impl UtcTime {
    /// Parses an instant in ISO 8601 or RFC 3339; `None` for other texts, for times without a
    /// zone, and for instants outside the years 0 to 9999 in UTC.
    ///
    /// Where both grammars fit, ISO 8601 decides: it rounds a fraction to nanoseconds, RFC 3339
    /// cuts it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let nanos = iso8601::parse(text)
            .and_then(|local| local.nanos())
            .or_else(|| rfc3339::parse(text)?.nanos())?;
        if !WRITABLE_NANOS.contains(&nanos) {
            return None;
        }
        Self::from_nanos(nanos)
    }

    /// Parses an instant in RFC 3339, with any character between date and time; `None` for other
    /// texts.
    #[must_use]
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        Self::from_nanos(rfc3339::parse(text)?.nanos()?)
    }

    /// Cuts nanoseconds towards 1970.
    fn from_nanos(nanos: i128) -> Option<Self> {
        i64::try_from(nanos / NANOS_PER_MICRO).ok().map(Self)
    }

    /// Converts to what a clock in UTC shows; `None` beyond the years -9999 to 9999.
    #[must_use]
    pub fn checked_datetime(self) -> Option<DateTime> {
        utc_datetime(self.0)
    }

    /// Converts to what a clock in UTC shows; the last it can show if beyond.
    #[must_use]
    pub fn to_datetime(self) -> DateTime {
        self.checked_datetime().unwrap_or(DateTime::MAX)
    }

    /// Writes the day in UTC, such as `2026-11-20`.
    #[must_use]
    pub fn day(self) -> String {
        let day = self.to_datetime().date();
        let sign = if day.year() < 0 { "-" } else { "" };
        let year = day.year().unsigned_abs();
        format!("{sign}{year:04}-{:02}-{:02}", day.month(), day.day())
    }

    /// Adds microseconds; the end of the range if beyond.
    #[must_use]
    pub const fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.to_datetime();
        let (hour, minute, second) = (at.hour(), at.minute(), at.second());
        write!(f, "{}T{hour:02}:{minute:02}:{second:02}", self.day())?;
        match at.subsec_nanosecond() / 1_000 {
            0 => f.write_str("Z"),
            micros => write!(f, ".{micros:06}Z"),
        }
    }
}

impl From<Micros> for UtcTime {
    fn from(at: Micros) -> Self {
        Self(at.0)
    }
}
