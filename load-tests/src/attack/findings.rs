//! Outcomes of everything that was tried, and violations among them.

use super::coverage::Coverage;
use super::export_runs::ExportRuns;
use super::http::Outcome;
use super::lock::lock;
use crate::digits::counted;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

/// Violations that are described in words; all are counted.
const TOLD_MAX: usize = 20;
/// Characters of a response that a violation quotes.
const ANSWER_CHARS_MAX: usize = 300;

/// Outcomes by name of the attempt, each with its count.
pub(super) type Outcomes = BTreeMap<String, BTreeMap<String, u64>>;

/// Findings of all tasks together.
#[derive(Debug, Default)]
pub(super) struct Findings {
    outcomes: Mutex<Outcomes>,
    times: Mutex<BTreeMap<String, OperationTimes>>,
    wrongs: Mutex<Violations>,
    /// Attempts that the API's document asks for.
    pub(super) coverage: Coverage,
    /// Runs of the exports of a full organization.
    pub(super) export_runs: ExportRuns,
}

/// Response times of one operation, those of requests among them that were given up.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct OperationTimes {
    /// Number of responses.
    pub count: u32,
    /// Sum of the response times in milliseconds.
    pub all_ms: f64,
    /// Longest response time in milliseconds.
    pub max_ms: f64,
    /// Seconds within which the API's document promises a response.
    pub promised_seconds: f64,
}

impl OperationTimes {
    /// Longest response time in seconds.
    #[must_use]
    pub fn max_seconds(&self) -> f64 {
        self.max_ms / 1e3
    }

    /// Seconds by which the slowest response was later than promised; negative if it was in time.
    fn late_seconds(&self) -> f64 {
        self.max_seconds() - self.promised_seconds
    }
}

impl fmt::Display for OperationTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean_ms = self.all_ms / f64::from(self.count.max(1));
        let (count, max_ms) = (counted(self.count.into(), "time"), self.max_ms);
        write!(f, "{count}, {mean_ms:.0} ms, {max_ms:.0} at the most")
    }
}

/// Violations: outcomes that must not happen.
#[derive(Clone, Debug, Default)]
pub(super) struct Violations {
    /// Number of violations.
    pub(super) count: u64,
    /// The first violations, in words.
    pub(super) examples: Vec<String>,
}

/// Returns true for a status that a sound server gives: any but its own errors; 503 is allowed.
pub(super) const fn is_orderly(status: u16) -> bool {
    status < 500 || status == 503
}

/// Returns true if the server processed the request: not when it was refused with 429 or 503, or
/// got no response.
pub(super) const fn is_judged(status: u16) -> bool {
    !matches!(status, 0 | 429 | 503)
}

impl Findings {
    /// Counts the outcome of a hostile request; a server error is a violation.
    pub(super) fn note(&self, what: &str, outcome: &Outcome) {
        self.note_if(what, outcome, is_orderly(outcome.status()));
    }

    /// Counts the outcome of a request that must be refused, with any status.
    pub(super) fn note_refusal(&self, what: &str, outcome: &Outcome) {
        let is_success = (200..300).contains(&outcome.status());
        self.note_if(what, outcome, !is_success && is_orderly(outcome.status()));
    }

    /// Counts the outcome of a request that must get one of these statuses, if it was processed.
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

    /// Counts an outcome given as a word.
    pub(super) fn count(&self, what: &str, outcome: &str) {
        let mut outcomes = lock(&self.outcomes);
        let of_it = outcomes.entry(what.to_owned()).or_default();
        *of_it.entry(outcome.to_owned()).or_default() += 1;
    }

    /// Records a response time.
    pub(super) fn record_time(&self, operation: &str, promised_seconds: f64, duration: Duration) {
        let mut times = lock(&self.times);
        let of_it = times.entry(operation.to_owned()).or_default();
        let ms = duration.as_secs_f64() * 1e3;
        of_it.count += 1;
        of_it.all_ms += ms;
        of_it.max_ms = of_it.max_ms.max(ms);
        of_it.promised_seconds = promised_seconds;
    }

    /// Times of the operation that was nearest to its promised time, or furthest beyond it.
    pub(super) fn latest_operation(&self) -> OperationTimes {
        let times = lock(&self.times).values().copied().collect::<Vec<_>>();
        let latest = times
            .into_iter()
            .max_by(|one, other| one.late_seconds().total_cmp(&other.late_seconds()));
        latest.unwrap_or_default()
    }

    /// Operations, slowest response first.
    pub(super) fn slowest_operations(&self) -> Vec<(String, OperationTimes)> {
        let mut all: Vec<_> = lock(&self.times).clone().into_iter().collect();
        all.sort_by(|(_, one), (_, other)| other.max_ms.total_cmp(&one.max_ms));
        all
    }

    /// Records a violation.
    pub(super) fn wrong(&self, what: String) {
        let mut wrongs = lock(&self.wrongs);
        wrongs.count += 1;
        if wrongs.examples.len() < TOLD_MAX {
            wrongs.examples.push(what);
        }
    }

    /// Outcomes so far.
    pub(super) fn outcomes(&self) -> Outcomes {
        lock(&self.outcomes).clone()
    }

    /// Violations so far.
    pub(super) fn wrongs(&self) -> Violations {
        lock(&self.wrongs).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16) -> Outcome {
        Outcome::Response {
            status,
            body: String::new(),
        }
    }

    #[test]
    fn server_errors_and_missing_refusals_are_violations() {
        let findings = Findings::default();
        for outcome in [answer(200), answer(503), answer(400), Outcome::Cut] {
            findings.note("bombs", &outcome);
        }
        for outcome in [answer(401), answer(503), Outcome::Late] {
            findings.note_refusal("statements", &outcome);
        }
        assert_eq!(findings.wrongs().count, 0);
        findings.note("bombs", &answer(500));
        findings.note_refusal("statements", &answer(200));
        findings.note_refusal("statements", &answer(502));
        assert_eq!(findings.wrongs().count, 3);
        assert_eq!(findings.outcomes()["bombs"]["200"], 1);
        assert_eq!(findings.outcomes()["statements"]["not tried: late"], 1);
    }

    #[test]
    fn a_request_refused_with_429_or_503_is_not_judged() {
        let findings = Findings::default();
        for outcome in [answer(429), answer(503), answer(400), Outcome::Cut] {
            findings.note_among("names", &outcome, &[400]);
        }
        assert_eq!(findings.wrongs().count, 0);
        let outcomes = &findings.outcomes()["names"];
        assert_eq!(outcomes["400"], 1);
        assert_eq!(outcomes.len(), 4);
        assert_eq!(
            outcomes
                .keys()
                .filter(|it| it.starts_with("not tried"))
                .count(),
            3
        );
        findings.note_among("names", &answer(401), &[400]);
        assert_eq!(findings.wrongs().count, 1);
    }

    #[test]
    fn operations_are_sorted_by_their_slowest_response() {
        let findings = Findings::default();
        for (operation, ms) in [("a", 1), ("b", 30), ("b", 10), ("c", 20)] {
            findings.record_time(operation, 30.0, Duration::from_millis(ms));
        }
        let slowest = findings.slowest_operations();
        let names: Vec<_> = slowest.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b", "c", "a"]);
        let (_, took) = &slowest[0];
        assert_eq!((took.count, took.all_ms, took.max_ms), (2, 40.0, 30.0));
    }

    #[test]
    fn the_latest_operation_is_measured_by_what_is_promised() {
        let findings = Findings::default();
        assert_eq!(findings.latest_operation().count, 0);
        for (operation, promised, seconds) in [("a", 30.0, 20), ("b", 5.0, 6), ("c", 30.0, 1)] {
            findings.record_time(operation, promised, Duration::from_secs(seconds));
        }
        let latest = findings.latest_operation();
        assert_eq!((latest.max_seconds(), latest.promised_seconds), (6.0, 5.0));
    }
}
