//! Instant of a date, a time of day and an offset; date and time of day of an instant in UTC.

use jiff::SignedDuration;
use jiff::civil::{self, Date, DateTime, Time};

const EPOCH: DateTime = civil::datetime(1970, 1, 1, 0, 0, 0, 0);
pub(super) const NANOS_PER_MICRO: i128 = 1_000;
const NANOS_PER_MINUTE: i128 = 60_000_000_000;

/// Time of day as a text names it, not yet checked.
#[derive(Clone, Copy, Default)]
pub(super) struct Clock {
    pub(super) hour: i8,
    pub(super) minute: i8,
    /// 60 in a leap second.
    pub(super) second: i8,
    pub(super) nanosecond: i32,
}

/// Date and time of day in a zone, as a text names them.
pub(super) struct LocalTime {
    pub(super) date: Date,
    pub(super) clock: Clock,
    /// Minutes by which the zone is ahead of UTC.
    pub(super) offset_minutes: i32,
}

impl LocalTime {
    /// Instant in nanoseconds since 1970; `None` if no clock shows this time of day.
    ///
    /// A leap second is not in the calendar: it is the last nanosecond before it, and there is
    /// one at the end of a month in UTC only.
    pub(super) fn nanos(&self) -> Option<i128> {
        let Clock {
            hour,
            minute,
            second,
            nanosecond,
        } = self.clock;
        let is_leap_second = second == 60;
        let time = if is_leap_second {
            Time::new(hour, minute, 59, 999_999_999)
        } else {
            Time::new(hour, minute, second, nanosecond)
        };
        let local = self.date.to_datetime(time.ok()?);
        let nanos = local.duration_since(EPOCH).as_nanos()
            - i128::from(self.offset_minutes) * NANOS_PER_MINUTE;
        (!is_leap_second || is_last_second_of_month(nanos)).then_some(nanos)
    }
}

/// Converts microseconds since 1970; `None` beyond the years -9999 to 9999.
pub(super) fn utc_datetime(micros: i64) -> Option<DateTime> {
    EPOCH.checked_add(SignedDuration::from_micros(micros)).ok()
}

fn is_last_second_of_month(nanos: i128) -> bool {
    // Not cut towards 1970, as the second before it is the last one of a month itself.
    let micros = i64::try_from(nanos.div_euclid(NANOS_PER_MICRO)).ok();
    micros.and_then(utc_datetime).is_some_and(|at| {
        (at.hour(), at.minute(), at.second()) == (23, 59, 59) && at.day() == at.days_in_month()
    })
}
