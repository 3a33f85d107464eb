//! Points in time as the catalog stores them.

use millrace_rows::Micros;
use sea_orm::DeriveValueType;
use serde::{Serialize, Serializer};
use std::fmt;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

const SECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
const MICROS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");

/// Point in time in microseconds since 1970-01-01T00:00:00Z, stored as a `BIGINT`.
///
/// SQLite has no type for time, and the text that drivers write there (RFC 3339 with as many
/// digits as needed) does not sort. An integer sorts and compares alike in both databases.
///
/// Outside it is ISO 8601 in UTC with `Z`, and with microseconds only when there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, DeriveValueType)]
pub struct UtcTime(pub i64);

impl UtcTime {
    /// Converts to the `time` crate's type; the end of its range if beyond.
    #[must_use]
    pub fn to_datetime(self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000)
            .unwrap_or(time::PrimitiveDateTime::MAX.assume_utc())
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
        let format = if at.microsecond() == 0 {
            SECONDS
        } else {
            MICROS
        };
        f.write_str(&at.format(format).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for UtcTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl From<Micros> for UtcTime {
    fn from(at: Micros) -> Self {
        Self(at.0)
    }
}

impl From<OffsetDateTime> for UtcTime {
    fn from(at: OffsetDateTime) -> Self {
        Self(i64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_with_microseconds_only_when_there_are_any() {
        let table = [
            (0, "1970-01-01T00:00:00Z"),
            (1_800_000_000_000_000, "2027-01-15T08:00:00Z"),
            (1_800_000_000_500_000, "2027-01-15T08:00:00.500000Z"),
            (1_800_000_000_000_001, "2027-01-15T08:00:00.000001Z"),
            (i64::MAX, "9999-12-31T23:59:59.999999Z"),
        ];
        for (micros, text) in table {
            assert_eq!(UtcTime(micros).to_string(), text);
        }
    }
}
