//! Requests that are made in turn, each with the hostile text in another place.

use super::context::AttackContext;
use super::ids::Ids;
use crate::attack::findings::Findings;
use crate::attack::http::Outcome;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;
use tokio::time::sleep;

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

/// Makes the attempts in turn, from a random one on, until the task is dropped.
pub(super) async fn make_all(
    context: &AttackContext,
    attempts: &[TextAttempt],
    check_response: fn(&Findings, &TextAttempt, &Outcome),
    mut rng: StdRng,
) {
    let mut ids = Ids::default();
    let hostile = &context.tenants.hostile;
    let first = rng.random_range(0..attempts.len().max(1));
    for attempt in attempts.iter().cycle().skip(first) {
        let filled = ids.fill(&attempt.path, hostile, hostile, &mut rng).await;
        let path = match attempt.query.as_str() {
            "" => filled.path,
            query => format!("{}?{query}", filled.path),
        };
        let outcome = hostile.ask_at(&attempt.method, &path, &attempt.body).await;
        check_response(&context.findings, attempt, &outcome);
        sleep(context.pause * 2).await;
    }
}
