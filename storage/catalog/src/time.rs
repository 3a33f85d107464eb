//! Instants as the catalog stores them.

use millrace_rows::Micros;
use sea_orm::DeriveValueType;
use time::OffsetDateTime;

/// Microseconds since 1970-01-01T00:00:00Z, stored as a `BIGINT`.
///
/// SQLite has no type for time, and the text that drivers write there (RFC 3339 with as many
/// digits as needed) does not sort. An integer sorts and compares alike in both databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, DeriveValueType)]
pub struct UtcTime(pub i64);

impl UtcTime {
    /// As the `time` crate has it; the end of its range if beyond.
    #[must_use]
    pub fn to_datetime(self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000)
            .unwrap_or(time::PrimitiveDateTime::MAX.assume_utc())
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
