//! Requests that are made in turn, each with the hostile text in another place.

use super::context::AttackContext;
use super::ids::Ids;
use crate::attack::findings::{Findings, is_judged};
use crate::attack::http::Outcome;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;
use tokio::time::sleep;

/// Part of a path for which no record is ever there.
const TOKEN: &str = "{token}";
/// Attempts that were processed are sent once in this many turns, while others were not.
const SENT_AGAIN: u32 = 8;

/// Request with the hostile text in one place.
#[derive(Debug)]
pub(super) struct TextAttempt {
    pub(super) method: String,
    /// Path template of the operation.
    pub(super) path: String,
    /// Query as it is sent, behind the question mark; empty if there is none.
    pub(super) query: String,
    pub(super) body: Value,
    /// Field or parameter with the text, as errors name it.
    pub(super) place: String,
}

impl TextAttempt {
    /// Name of the attempt with this number.
    fn name(&self, number: usize) -> String {
        format!("{} {}: {} ({number})", self.method, self.path, self.place)
    }

    /// Returns true if a response with this status was made with a look at the text: not where the
    /// record of the path is missing.
    fn is_processed(&self, status: u16) -> bool {
        is_judged(status) && (status != 404 || self.path.contains(TOKEN))
    }
}

/// Makes the attempts of a group in turn, from a random one on, until the task is dropped. Those
/// that were not processed yet have precedence.
pub(super) async fn make_all(
    context: &AttackContext,
    group: &'static str,
    attempts: &[TextAttempt],
    check_response: fn(&Findings, &TextAttempt, &Outcome),
    mut rng: StdRng,
) {
    let mut ids = Ids::default();
    let hostile = &context.tenants.hostile;
    let coverage = &context.findings.coverage;
    let numbered = attempts.iter().enumerate();
    let names: Vec<String> = numbered.map(|(number, it)| it.name(number)).collect();
    coverage.expect(group, &names);
    let mut is_complete = coverage.is_complete(group);
    let first = rng.random_range(0..attempts.len().max(1));
    for (attempt, name) in attempts.iter().zip(&names).cycle().skip(first) {
        let is_done = coverage.is_tried(group, name) && !rng.random_ratio(1, SENT_AGAIN);
        if is_done && !is_complete {
            continue;
        }
        let filled = ids.fill(&attempt.path, hostile, hostile, &mut rng).await;
        let path = match attempt.query.as_str() {
            "" => filled.path,
            query => format!("{}?{query}", filled.path),
        };
        let outcome = hostile.ask_at(&attempt.method, &path, &attempt.body).await;
        check_response(&context.findings, attempt, &outcome);
        if attempt.is_processed(outcome.status()) {
            coverage.mark(group, name);
            is_complete = coverage.is_complete(group);
        }
        sleep(context.pause * 2).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_record_says_nothing_about_the_text() {
        let attempt = |path: &str| TextAttempt {
            method: "PATCH".to_owned(),
            path: path.to_owned(),
            query: String::new(),
            body: Value::Null,
            place: "name".to_owned(),
        };
        let of_record = attempt("/a/{id}/");
        assert_eq!(of_record.name(7), "PATCH /a/{id}/: name (7)");
        for (status, is_processed) in [
            (400, true),
            (200, true),
            (403, true),
            (404, false),
            (429, false),
            (503, false),
            (0, false),
        ] {
            assert_eq!(of_record.is_processed(status), is_processed, "{status}");
        }
        assert!(attempt("/signup/{token}/").is_processed(404));
    }
}
