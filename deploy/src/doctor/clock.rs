//! Clocks of this machine and of a server, by the server's time within a question.

use super::Finding;
use millrace_rows::{Clock, SystemClock};

const CLOCK: &str = "clock";
const MICROS_PER_SECOND: i64 = 1_000_000;
/// Difference above which watermarks of nodes, leases and times of rows are visibly off.
const SKEW_MAX: i64 = MICROS_PER_SECOND;
/// Difference above which one of the clocks is wrong.
const SKEW_WRONG: i64 = 60 * MICROS_PER_SECOND;

/// Time of this machine, in microseconds since 1970.
pub(super) fn now_micros() -> i64 {
    SystemClock.now().0
}

/// Judges a server's time that was read after `before` and ahead of `after`, all in microseconds.
pub(super) fn finding(server: &str, before: i64, told: i64, after: i64) -> Finding {
    // Anything within the question is no difference.
    let ahead = told.saturating_sub(after).max(0);
    let behind = before.saturating_sub(told).max(0);
    let skew = ahead.max(behind);
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    let found = match skew {
        0 => format!("{server} has the time of this machine"),
        _ => format!(
            "{server} is {:.1} s {direction} this machine",
            seconds(skew)
        ),
    };
    let advice = "run a time service on both, such as chrony, and see which of them is wrong with `timedatectl`";
    match skew {
        SKEW_WRONG.. => Finding::error(CLOCK, found, advice),
        SKEW_MAX.. => Finding::warning(CLOCK, found, advice),
        _ => Finding::ok(CLOCK, found),
    }
}

#[allow(clippy::cast_precision_loss, reason = "a number for people")]
fn seconds(micros: i64) -> f64 {
    micros as f64 / MICROS_PER_SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn a_difference_counts_beyond_the_time_of_the_question() {
        let second = MICROS_PER_SECOND;
        let table = [
            (0, 5, 10, Status::Ok, "has the time"),
            (0, 10, 10, Status::Ok, "has the time"),
            (0, second / 2, 10, Status::Ok, "0.5 s ahead"),
            (0, 2 * second, 10, Status::Warning, "2.0 s ahead"),
            (3 * second, 0, 3 * second, Status::Warning, "3.0 s behind"),
            (0, 90 * second, 10, Status::Error, "90.0 s ahead"),
            (0, -90 * second, 10, Status::Error, "90.0 s behind"),
            (0, i64::MIN, 10, Status::Error, "behind"),
        ];
        for (before, told, after, status, words) in table {
            let finding = finding("PostgreSQL", before, told, after);
            assert_eq!(finding.status, status, "{finding:?}");
            assert!(finding.found.contains(words), "{finding:?}");
        }
    }
}
