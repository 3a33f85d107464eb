//! Errors that come again and again: each is logged at first, and then rarely.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time after which an error is logged again.
const AGAIN_AFTER: Duration = Duration::from_secs(600);
/// Errors that are remembered. With more, all of them are logged anew.
const REMEMBERED_MAX: usize = 100;

/// Errors that were logged lately, and when.
#[derive(Debug, Default)]
pub(super) struct RareLog(HashMap<String, Instant>);

impl RareLog {
    /// Returns true if an error is to be logged now.
    pub(super) fn is_due(&mut self, error: &str, now: Instant) -> bool {
        self.0
            .retain(|_, logged_at| now.duration_since(*logged_at) < AGAIN_AFTER);
        if self.0.contains_key(error) {
            return false;
        }
        if self.0.len() >= REMEMBERED_MAX {
            self.0.clear();
        }
        self.0.insert(error.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_logged_at_first_and_every_ten_minutes() {
        let (began, mut log) = (Instant::now(), RareLog::default());
        let table = [
            ("away", 0, true),
            ("away", 0, false),
            ("wrong", 1, true),
            ("away", 599, false),
            ("away", 600, true),
            ("wrong", 600, false),
            ("wrong", 601, true),
            ("away", 1_199, false),
        ];
        for (error, seconds, is_due) in table {
            let now = began + Duration::from_secs(seconds);
            assert_eq!(log.is_due(error, now), is_due, "{error} at {seconds} s");
        }
    }
}
