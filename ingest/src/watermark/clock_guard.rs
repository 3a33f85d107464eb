//! Clock guard: the time of day for the watermark, which cannot be taken back.
//!
//! Rows get the clock's time as it is, but none before `min_created_at`, which is raised to every
//! time that the guard returns. A clock that jumps ahead by a day and is then put right would leave
//! `min_created_at` a day ahead: until then all rows would have one and the same `created_at`, and
//! exports would wait. So a jump ahead is followed only once the clock has kept it for
//! [`JUMP_HOLD`]; meanwhile time goes on by the machine's other clock, which does not jump. Nothing
//! is lost by that: rows that are ahead of the watermark are exported when it gets there.
//!
//! A clock that falls behind an earlier time is never followed back, as windows may have been
//! exported up to there.

use millrace_rows::Micros;
use std::time::Duration;

/// Time by which the clock may be ahead of what it should show and be followed at once. A restart
/// within it holds no export up, and a mistake within it freezes `created_at` for as long.
const SLACK: Duration = Duration::from_secs(60);
/// Time for which a larger jump must last to be followed; longer than a machine takes after its
/// start to ask others for the time.
pub const JUMP_HOLD: Duration = Duration::from_mins(10);

/// Guard over the clock: its time never falls, and jumps ahead only with a delay.
#[derive(Debug)]
pub struct ClockGuard {
    /// Last time that was returned, and when that was, by a clock that does not jump.
    last: Micros,
    last_at: Duration,
    ahead_since: Option<Duration>,
    skew: ClockSkew,
}

/// Skew of the clock, in seconds, while it is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSkew {
    /// The clock is followed.
    None,
    /// The clock jumped ahead.
    Ahead(i64),
    /// The clock is behind by more than a little.
    Behind(i64),
}

impl ClockGuard {
    /// Returns a guard that starts at this time.
    pub const fn new(start: Micros) -> Self {
        Self {
            last: start,
            last_at: Duration::ZERO,
            ahead_since: None,
            skew: ClockSkew::None,
        }
    }

    /// Returns the time when the clock shows `wall`, so long after the start. It never falls.
    pub fn observe(&mut self, wall: Micros, elapsed: Duration) -> Micros {
        let passed = elapsed.saturating_sub(self.last_at);
        let expected = self.last.0.saturating_add(micros(passed));
        let is_jump = wall.0 > expected.saturating_add(micros(SLACK));
        let since = is_jump.then(|| self.ahead_since.unwrap_or(elapsed));
        let is_kept = since.is_some_and(|since| elapsed.saturating_sub(since) >= JUMP_HOLD);
        let time = if is_jump && !is_kept {
            expected
        } else {
            wall.0
        };
        self.ahead_since = since.filter(|_| !is_kept);
        self.skew = if is_jump && !is_kept {
            ClockSkew::Ahead(seconds(wall.0.saturating_sub(expected)))
        } else if wall.0.saturating_add(micros(SLACK)) < self.last.0 {
            ClockSkew::Behind(seconds(self.last.0.saturating_sub(wall.0)))
        } else {
            ClockSkew::None
        };
        // A clock that is behind may come back to where it would be now: no jump, then.
        if time > self.last.0 {
            self.last = Micros(time);
            self.last_at = elapsed;
        }
        self.last
    }

    /// Skew of the clock at the last reading.
    pub const fn skew(&self) -> ClockSkew {
        self.skew
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

const fn seconds(micros: i64) -> i64 {
    micros / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;

    /// Seconds since the start, seconds by which the clock is ahead then, and by which the guarded
    /// time is.
    type Reading = [i64; 3];

    fn assert_guarded(name: &str, readings: &[Reading]) {
        let mut clock_guard = ClockGuard::new(Micros(0));
        for &[elapsed, ahead, expected] in readings {
            let wall = Micros((elapsed + ahead) * 1_000_000);
            let guarded =
                clock_guard.observe(wall, Duration::from_secs(elapsed.try_into().unwrap()));
            assert_eq!(
                seconds(guarded.0) - elapsed,
                expected,
                "{name} at {elapsed}"
            );
        }
    }

    #[test]
    fn a_clock_is_followed_but_not_far_ahead_at_once_and_never_back() {
        let table: [(&str, &[Reading]); 7] = [
            ("a clock that goes", &[[1, 0, 0], [2, 0, 0], [900, 0, 0]]),
            ("a little ahead", &[[1, 59, 59], [2, 59, 59]]),
            (
                "a day ahead by mistake",
                &[[1, 0, 0], [2, DAY, 0], [300, DAY, 0], [301, 0, 0]],
            ),
            (
                "a day ahead and right",
                &[
                    [1, 0, 0],
                    [2, DAY, 0],
                    [601, DAY, 0],
                    [602, DAY, DAY],
                    [700, DAY, DAY],
                ],
            ),
            (
                "two mistakes are not one that lasts",
                &[[2, DAY, 0], [400, 0, 0], [500, DAY, 0], [900, DAY, 0]],
            ),
            (
                "back for an hour, and put right",
                &[[10, 0, 0], [11, -HOUR, -1], [100, -HOUR, -90], [110, 0, 0]],
            ),
            (
                "back for good",
                &[
                    [10, 0, 0],
                    [11, -20, -1],
                    [29, -20, -19],
                    [31, -20, -20],
                    [40, -20, -20],
                ],
            ),
        ];
        for (name, readings) in table {
            assert_guarded(name, readings);
        }
    }

    #[test]
    fn a_start_long_after_the_last_end_is_a_jump_that_is_followed_later() {
        assert_guarded("a short pause", &[[0, 30, 30]]);
        assert_guarded(
            "a long one",
            &[[0, HOUR, 0], [599, HOUR, 0], [600, HOUR, HOUR]],
        );
    }

    #[test]
    fn a_clock_that_is_not_followed_has_a_skew() {
        let mut clock_guard = ClockGuard::new(Micros(0));
        let mut skew = |elapsed: u64, wall: i64| {
            clock_guard.observe(Micros(wall * 1_000_000), Duration::from_secs(elapsed));
            clock_guard.skew()
        };
        assert_eq!(skew(100, 100), ClockSkew::None);
        assert_eq!(skew(101, 101 + DAY), ClockSkew::Ahead(DAY));
        assert_eq!(skew(102, 102), ClockSkew::None);
        assert_eq!(skew(103, 100), ClockSkew::None);
        assert_eq!(skew(104, -HOUR), ClockSkew::Behind(102 + HOUR));
    }
}
