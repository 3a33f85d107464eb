//! Failures that come again and again: each is logged at first, and then rarely.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time after which a failure is logged again.
const AGAIN_AFTER: Duration = Duration::from_secs(600);
/// Failures that are remembered. With more, the newest makes way: of failures that come in turn,
/// the oldest would be the next, and each would be logged each time.
const REMEMBERED_MAX: usize = 1_000;

/// Failures that were logged lately, and when.
#[derive(Debug, Default)]
pub struct RareLog {
    /// Keys of the hashes: nobody outside can find two failures with the same one.
    hasher: RandomState,
    /// Times by the hash of a failure: its text may be as long as a statement that it quotes.
    logged: Mutex<HashMap<u64, Instant>>,
}

impl RareLog {
    /// Returns true if a failure is to be logged now, and counts it as logged.
    #[must_use]
    pub fn is_due(&self, failure: &str, now: Instant) -> bool {
        let failure = self.hasher.hash_one(failure);
        let mut logged = self.logged();
        logged.retain(|_, logged_at| now.duration_since(*logged_at) < AGAIN_AFTER);
        if logged.contains_key(&failure) {
            return false;
        }
        if logged.len() >= REMEMBERED_MAX {
            let newest = logged.iter().max_by_key(|(_, logged_at)| **logged_at);
            if let Some(newest) = newest.map(|(failure, _)| *failure) {
                logged.remove(&newest);
            }
        }
        logged.insert(failure, now);
        true
    }

    /// Forgets all failures, after a success; returns true if there were some.
    pub fn clear(&self) -> bool {
        let mut logged = self.logged();
        let had_failures = !logged.is_empty();
        logged.clear();
        had_failures
    }

    fn logged(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_logged_at_first_and_every_ten_minutes() {
        let (began, log) = (Instant::now(), RareLog::default());
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
        for (failure, seconds, is_due) in table {
            let now = began + Duration::from_secs(seconds);
            assert_eq!(log.is_due(failure, now), is_due, "{failure} at {seconds} s");
        }
    }

    #[test]
    fn of_too_many_failures_those_over_the_limit_alone_are_logged_each_time() {
        let (began, log) = (Instant::now(), RareLog::default());
        let (all, remembered) = (REMEMBERED_MAX + 200, REMEMBERED_MAX - 1);
        let mut now = began;
        for expected in [all, all - remembered, all - remembered] {
            let due = (0..all).filter(|failure| {
                now += Duration::from_millis(1);
                log.is_due(&failure.to_string(), now)
            });
            assert_eq!(due.count(), expected);
            assert_eq!(log.logged().len(), REMEMBERED_MAX);
        }
    }

    #[test]
    fn a_failure_after_a_success_is_logged_at_once() {
        let (now, log) = (Instant::now(), RareLog::default());
        assert!(!log.clear());
        assert!(log.is_due("away", now));
        assert!(log.clear());
        assert!(!log.clear());
        assert!(log.is_due("away", now));
    }
}
