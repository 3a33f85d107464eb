//! Outcomes of everything that was tried, and violations among them.

use super::coverage::Coverage;
use super::export_runs::ExportRuns;
use super::http::Outcome;
use super::lock::lock;
use super::operation_times::ResponseTimes;
use std::collections::BTreeMap;
use std::sync::Mutex;

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
    wrongs: Mutex<Violations>,
    /// Attempts that the API's document asks for.
    pub(super) coverage: Coverage,
    /// Response times of operations in the rounds that were asked for.
    pub(super) times: ResponseTimes,
    /// The same of extra rounds.
    pub(super) extra_times: ResponseTimes,
    /// Runs of the exports of a full organization.
    pub(super) export_runs: ExportRuns,
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
}
