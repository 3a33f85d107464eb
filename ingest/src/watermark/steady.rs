//! The time of day for the watermark, which cannot be taken back.
//!
//! Rows get the clock's time as it is, but no earlier one than the floor, and the floor is raised to
//! every time that is told here. A clock that jumps ahead by a day and is then put right would leave
//! the floor a day ahead: until then all rows would have one and the same `created_at`, and exports
//! would wait. So a jump ahead is believed only once the clock has kept it for [`PATIENCE`]; meanwhile
//! time goes on by the machine's other clock, which does not jump. Nothing is lost by that: rows that
//! are ahead of the watermark are exported when it gets there.
//!
//! A clock that is behind what was told is never followed back, as windows may have been exported up
//! to there.

use millrace_rows::Micros;
use std::time::Duration;

/// How far the clock may be ahead of what it should show and be believed at once. A restart within it
/// holds no export up, and a mistake within it freezes `created_at` for as long.
const SLACK: Duration = Duration::from_secs(60);
/// How long a larger jump must last to be believed; longer than a machine takes after its start to
/// ask others for the time.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// Tells the time.
#[derive(Debug)]
pub struct SteadyTime {
    /// What was told last, and when that was, by a clock that does not jump.
    last: Micros,
    told_at: Duration,
    ahead_since: Option<Duration>,
    doubt: Doubt,
}

/// Why the clock is not followed, and how many seconds it is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It is.
    None,
    /// It jumped ahead.
    Ahead(i64),
    /// It is behind by more than a little.
    Behind(i64),
}

impl SteadyTime {
    /// From this time on.
    pub const fn new(start: Micros) -> Self {
        Self {
            last: start,
            told_at: Duration::ZERO,
            ahead_since: None,
            doubt: Doubt::None,
        }
    }

    /// The time when the clock shows `wall`, so long after the start. It never falls.
    pub fn look(&mut self, wall: Micros, elapsed: Duration) -> Micros {
        let passed = elapsed.saturating_sub(self.told_at);
        let expected = self.last.0.saturating_add(micros(passed));
        let is_jump = wall.0 > expected.saturating_add(micros(SLACK));
        let since = is_jump.then(|| self.ahead_since.unwrap_or(elapsed));
        let is_kept = since.is_some_and(|since| elapsed.saturating_sub(since) >= PATIENCE);
        let time = if is_jump && !is_kept {
            expected
        } else {
            wall.0
        };
        self.ahead_since = since.filter(|_| !is_kept);
        self.doubt = if is_jump && !is_kept {
            Doubt::Ahead(seconds(wall.0.saturating_sub(expected)))
        } else if wall.0.saturating_add(micros(SLACK)) < self.last.0 {
            Doubt::Behind(seconds(self.last.0.saturating_sub(wall.0)))
        } else {
            Doubt::None
        };
        // A clock that is behind may come back to where it would be now: no jump, then.
        if time > self.last.0 {
            self.last = Micros(time);
            self.told_at = elapsed;
        }
        self.last
    }

    /// What was thought of the clock at the last look.
    pub const fn doubt(&self) -> Doubt {
        self.doubt
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

    /// Seconds since the start, how far ahead the clock is then, and how far ahead is told.
    type Look = [i64; 3];

    fn assert_told(name: &str, looks: &[Look]) {
        let mut steady = SteadyTime::new(Micros(0));
        for &[elapsed, ahead, expected] in looks {
            let wall = Micros((elapsed + ahead) * 1_000_000);
            let told = steady.look(wall, Duration::from_secs(elapsed.try_into().unwrap()));
            assert_eq!(seconds(told.0) - elapsed, expected, "{name} at {elapsed}");
        }
    }

    #[test]
    fn a_clock_is_followed_but_not_far_ahead_at_once_and_never_back() {
        let table: [(&str, &[Look]); 7] = [
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
        for (name, looks) in table {
            assert_told(name, looks);
        }
    }

    #[test]
    fn a_start_long_after_the_last_end_is_a_jump_that_is_believed_later() {
        assert_told("a short pause", &[[0, 30, 30]]);
        assert_told(
            "a long one",
            &[[0, HOUR, 0], [599, HOUR, 0], [600, HOUR, HOUR]],
        );
    }

    #[test]
    fn a_clock_that_is_not_followed_is_told_of() {
        let mut steady = SteadyTime::new(Micros(0));
        let mut doubt = |elapsed: u64, wall: i64| {
            steady.look(Micros(wall * 1_000_000), Duration::from_secs(elapsed));
            steady.doubt()
        };
        assert_eq!(doubt(100, 100), Doubt::None);
        assert_eq!(doubt(101, 101 + DAY), Doubt::Ahead(DAY));
        assert_eq!(doubt(102, 102), Doubt::None);
        assert_eq!(doubt(103, 100), Doubt::None);
        assert_eq!(doubt(104, -HOUR), Doubt::Behind(102 + HOUR));
    }
}
