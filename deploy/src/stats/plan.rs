//! Times that are counted next; no I/O.

use millrace_clickhouse::{
    DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS, QueryError, QueryErrorKind, StatsDetail,
};
use std::ops::Range;

const MINUTE: i64 = MINUTE_SECONDS as i64;
const HOUR: i64 = HOUR_SECONDS as i64;
const DAY: i64 = DAY_SECONDS as i64;
/// Age from which events are counted by hours at once: minutes of so long ago may be gone before
/// they are summed.
const MINUTES_AGE_MAX: i64 = 2 * DAY;
/// Most minutes that are counted by one statement.
const MINUTES_MAX: i64 = 60;
/// Codes of ClickHouse for limits of time, memory and disk: `TIMEOUT_EXCEEDED`, `TOO_SLOW`,
/// `MEMORY_LIMIT_EXCEEDED`, `TOO_MANY_ROWS_OR_BYTES`.
const LIMIT_CODES: [u32; 4] = [159, 160, 241, 396];

/// Time that is counted by one statement, within one hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The time, in seconds since 1970.
    pub seconds: Range<i64>,
    /// Step by which it is counted.
    pub step_seconds: u32,
}

impl Chunk {
    /// Hour that is complete once the chunk is counted, and was counted by minutes.
    #[must_use]
    pub fn hour_to_sum(&self) -> Option<Range<i64>> {
        let is_by_minute = self.step_seconds == MINUTE_SECONDS;
        (is_by_minute && self.seconds.end % HOUR == 0)
            .then(|| self.seconds.end - HOUR..self.seconds.end)
    }

    /// Day that is complete once the chunk is counted.
    #[must_use]
    pub fn day_to_sum(&self) -> Option<Range<i64>> {
        (self.seconds.end % DAY == 0).then(|| self.seconds.end - DAY..self.seconds.end)
    }
}

/// Size and detail of what is counted at once, by whether it was too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    minutes: i64,
    detail: StatsDetail,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            minutes: MINUTES_MAX,
            detail: StatsDetail::Names,
        }
    }
}

impl Pace {
    /// Detail in which events are counted.
    #[must_use]
    pub const fn detail(self) -> StatsDetail {
        self.detail
    }

    /// Notes that a chunk was counted.
    pub fn succeeded(&mut self) {
        self.minutes = self.minutes.saturating_mul(2).min(MINUTES_MAX);
        self.detail = StatsDetail::Names;
    }

    /// Notes that a chunk was too much: half of it is next, and of one minute only the totals.
    pub fn was_too_much(&mut self) {
        match self.minutes {
            ..=1 => self.detail = StatsDetail::Totals,
            minutes => self.minutes = minutes / 2,
        }
    }

    /// Next chunk of events of which those before `counted` are counted, and those before `sealed`
    /// are all there; `None` while there is none.
    #[must_use]
    pub fn next(self, counted: i64, sealed: i64, now: i64) -> Option<Chunk> {
        let hour_start = floor(counted, HOUR);
        let hour_end = hour_start + HOUR;
        if hour_end <= now - MINUTES_AGE_MAX {
            return (hour_end <= sealed).then_some(Chunk {
                seconds: hour_start..hour_end,
                step_seconds: HOUR_SECONDS,
            });
        }
        let end = floor(counted, MINUTE) + self.minutes * MINUTE;
        let end = end.min(hour_end).min(floor(sealed, MINUTE));
        (end > counted).then_some(Chunk {
            seconds: counted..end,
            step_seconds: MINUTE_SECONDS,
        })
    }
}

/// Beginning of a step.
const fn floor(seconds: i64, step: i64) -> i64 {
    seconds - seconds.rem_euclid(step)
}

/// Returns true if a statement failed because of what it had to read.
#[must_use]
pub fn is_too_much(error: &QueryError) -> bool {
    match error.code {
        Some(code) => LIMIT_CODES.contains(&code),
        // No answer in time.
        None => error.kind == QueryErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_end_at_the_hour_and_before_what_is_still_to_come() {
        let pace = Pace::default();
        let day = 20_000 * DAY;
        let table = [
            // counted, sealed, chunk, its step; all from the day on.
            (0, HOUR + 30, Some((0, HOUR)), MINUTE_SECONDS),
            (0, 150, Some((0, 120)), MINUTE_SECONDS),
            (120, 150, None, 0),
            (120, 60, None, 0),
            // Where counting begins.
            (70, 130, Some((70, 120)), MINUTE_SECONDS),
            (70, 119, None, 0),
            (HOUR - 60, 2 * HOUR, Some((HOUR - 60, HOUR)), MINUTE_SECONDS),
            // Three days ago, from the beginning of its hour on.
            (
                -3 * DAY + 60,
                0,
                Some((-3 * DAY, -3 * DAY + HOUR)),
                HOUR_SECONDS,
            ),
            (-3 * DAY + 60, -3 * DAY + 120, None, 0),
        ];
        for (counted, sealed, expected, step_seconds) in table {
            let found = pace.next(day + counted, day + sealed, day + HOUR);
            let expected = expected.map(|(start, end)| Chunk {
                seconds: day + start..day + end,
                step_seconds,
            });
            assert_eq!(found, expected, "{counted} {sealed}");
        }
    }

    #[test]
    fn hours_and_days_are_summed_once_they_are_complete() {
        let chunk = |start: i64, end: i64, step_seconds: u32| Chunk {
            seconds: start..end,
            step_seconds,
        };
        let table = [
            (chunk(0, 120, MINUTE_SECONDS), None, None),
            (chunk(HOUR - 60, HOUR, MINUTE_SECONDS), Some(0..HOUR), None),
            (chunk(0, HOUR, HOUR_SECONDS), None, None),
            (chunk(DAY - HOUR, DAY, HOUR_SECONDS), None, Some(0..DAY)),
            (
                chunk(DAY - 60, DAY, MINUTE_SECONDS),
                Some(DAY - HOUR..DAY),
                Some(0..DAY),
            ),
        ];
        for (chunk, hour, day) in table {
            assert_eq!((chunk.hour_to_sum(), chunk.day_to_sum()), (hour, day));
        }
    }

    #[test]
    fn what_is_too_much_is_halved_until_only_totals_are_counted() {
        let mut pace = Pace::default();
        let mut minutes = Vec::new();
        while pace.detail() == StatsDetail::Names {
            minutes.push(pace.minutes);
            pace.was_too_much();
        }
        assert_eq!(minutes, [60, 30, 15, 7, 3, 1]);
        pace.succeeded();
        assert_eq!((pace.minutes, pace.detail()), (2, StatsDetail::Names));
        let failed = |code, kind| {
            is_too_much(&QueryError {
                code,
                kind,
                message: String::new(),
            })
        };
        assert!(failed(Some(241), QueryErrorKind::Other));
        assert!(failed(None, QueryErrorKind::Other));
        assert!(!failed(Some(60), QueryErrorKind::Misconfigured));
        assert!(!failed(None, QueryErrorKind::NoConnection));
    }
}
