//! What came of everything that was tried, and what must not have.

use super::http::Outcome;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Wrongs that are told in words; all are counted.
const TOLD_MAX: usize = 20;
/// Characters of an answer that are told.
const ANSWER_CHARS_MAX: usize = 300;

/// Outcomes by what was tried, and how often each came.
pub(super) type Outcomes = BTreeMap<String, BTreeMap<String, u64>>;

/// Counts of all tasks together.
#[derive(Debug, Default)]
pub(super) struct Tally {
    outcomes: Mutex<Outcomes>,
    took: Mutex<BTreeMap<String, Took>>,
    wrongs: Mutex<Wrongs>,
}

/// How long the answers to an operation took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Took {
    /// How many there were.
    pub count: u32,
    /// All of them together, in milliseconds.
    pub all_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean_ms = self.all_ms / f64::from(self.count.max(1));
        let Self { count, max_ms, .. } = self;
        write!(f, "{count} times, {mean_ms:.0} ms, {max_ms:.0} at the most")
    }
}

/// What must not have been.
#[derive(Clone, Debug, Default)]
pub(super) struct Wrongs {
    /// How many.
    pub(super) count: u64,
    /// The first, in words.
    pub(super) told: Vec<String>,
}

/// Whether an answer is one that a server gives in good order: any but that of a mistake of its own.
pub(super) const fn is_orderly(status: u16) -> bool {
    status < 500 || status == 503
}

/// Whether the server looked at what was asked: who is told to come again, or nothing, was not.
pub(super) const fn is_judged(status: u16) -> bool {
    !matches!(status, 0 | 429 | 503)
}

impl Tally {
    /// Counts an outcome of something hostile; whatever the server's own mistake is, is wrong.
    pub(super) fn note(&self, what: &str, outcome: &Outcome) {
        self.note_if(what, outcome, is_orderly(outcome.status()));
    }

    /// Counts one that must have been a refusal, of whatever kind.
    pub(super) fn note_refusal(&self, what: &str, outcome: &Outcome) {
        let is_success = (200..300).contains(&outcome.status());
        self.note_if(what, outcome, !is_success && is_orderly(outcome.status()));
    }

    /// Counts one that must have one of these statuses, if it was judged.
    pub(super) fn note_among(&self, what: &str, outcome: &Outcome, statuses: &[u16]) {
        let status = outcome.status();
        self.note_if(
            what,
            outcome,
            !is_judged(status) || statuses.contains(&status),
        );
    }

    fn note_if(&self, what: &str, outcome: &Outcome, is_right: bool) {
        if is_judged(outcome.status()) {
            self.count(what, &outcome.to_string());
        } else {
            self.count(what, &format!("not tried: {outcome}"));
        }
        if !is_right {
            let said: String = outcome.text().chars().take(ANSWER_CHARS_MAX).collect();
            self.wrong(format!("{what}: {outcome} {said}"));
        }
    }

    /// Counts an outcome in a word.
    pub(super) fn count(&self, what: &str, outcome: &str) {
        let mut outcomes = lock(&self.outcomes);
        let of_it = outcomes.entry(what.to_owned()).or_default();
        *of_it.entry(outcome.to_owned()).or_default() += 1;
    }

    /// Notes how long an answer took.
    pub(super) fn took(&self, operation: &str, duration: Duration) {
        let mut took = lock(&self.took);
        let of_it = took.entry(operation.to_owned()).or_default();
        let ms = duration.as_secs_f64() * 1e3;
        of_it.count += 1;
        of_it.all_ms += ms;
        of_it.max_ms = of_it.max_ms.max(ms);
    }

    /// Operations, the one with the longest answer first.
    pub(super) fn dearest(&self) -> Vec<(String, Took)> {
        let mut all: Vec<_> = lock(&self.took).clone().into_iter().collect();
        all.sort_by(|(_, one), (_, other)| other.max_ms.total_cmp(&one.max_ms));
        all
    }

    /// Notes what must not have been.
    pub(super) fn wrong(&self, what: String) {
        let mut wrongs = lock(&self.wrongs);
        wrongs.count += 1;
        if wrongs.told.len() < TOLD_MAX {
            wrongs.told.push(what);
        }
    }

    /// What was counted so far.
    pub(super) fn outcomes(&self) -> Outcomes {
        lock(&self.outcomes).clone()
    }

    /// What was wrong so far.
    pub(super) fn wrongs(&self) -> Wrongs {
        lock(&self.wrongs).clone()
    }
}

/// A count is never left half-written, so a poisoned lock is as good as any.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16) -> Outcome {
        Outcome::Answer {
            status,
            body: String::new(),
        }
    }

    #[test]
    fn mistakes_of_the_server_and_what_was_let_through_are_wrong() {
        let tally = Tally::default();
        for outcome in [answer(200), answer(503), answer(400), Outcome::Cut] {
            tally.note("bombs", &outcome);
        }
        for outcome in [answer(401), answer(503), Outcome::Late] {
            tally.note_refusal("statements", &outcome);
        }
        assert_eq!(tally.wrongs().count, 0);
        tally.note("bombs", &answer(500));
        tally.note_refusal("statements", &answer(200));
        tally.note_refusal("statements", &answer(502));
        assert_eq!(tally.wrongs().count, 3);
        assert_eq!(tally.outcomes()["bombs"]["200"], 1);
        assert_eq!(tally.outcomes()["statements"]["not tried: late"], 1);
    }

    #[test]
    fn who_was_told_to_come_again_was_not_judged() {
        let tally = Tally::default();
        for outcome in [answer(429), answer(503), answer(400), Outcome::Cut] {
            tally.note_among("names", &outcome, &[400]);
        }
        assert_eq!(tally.wrongs().count, 0);
        let outcomes = &tally.outcomes()["names"];
        assert_eq!(outcomes["400"], 1);
        assert_eq!(outcomes.len(), 4);
        assert_eq!(
            outcomes
                .keys()
                .filter(|it| it.starts_with("not tried"))
                .count(),
            3
        );
        tally.note_among("names", &answer(401), &[400]);
        assert_eq!(tally.wrongs().count, 1);
    }

    #[test]
    fn the_dearest_operation_is_the_one_with_the_longest_answer() {
        let tally = Tally::default();
        for (operation, ms) in [("a", 1), ("b", 30), ("b", 10), ("c", 20)] {
            tally.took(operation, Duration::from_millis(ms));
        }
        let dearest = tally.dearest();
        let names: Vec<_> = dearest.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b", "c", "a"]);
        let (_, took) = &dearest[0];
        assert_eq!((took.count, took.all_ms, took.max_ms), (2, 40.0, 30.0));
    }
}
