//! Long queries of the project through the API, which nobody else may stop.

use super::tenant::GoodTenant;
use crate::attack::http::Outcome;
use crate::attack::tenants::{LONG_QUERY, text};
use anyhow::Result;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;
use uuid::Uuid;

/// Pause between two queries.
const PAUSE: Duration = Duration::from_millis(500);
/// Name of the queries in a report.
const ATTEMPTS: &str = "good tenant: long queries";

/// Runs queries one after the other until the run is over.
pub(super) async fn query_all(good: &GoodTenant<'_>) -> Result<()> {
    while !good.current_phase.is_over() {
        let tenant = &good.tenants.good;
        let id = Uuid::from_u128(rand::random()).to_string();
        let path = format!("/api/projects/{}/query/", tenant.project_id);
        let query = json!({"query": LONG_QUERY, "query_id": id});
        tenant.long_query.begin(&id);
        let outcome = tenant.ask_at("POST", &path, &query).await;
        tenant.long_query.end(&id, began(&outcome));
        good.findings.count(ATTEMPTS, &outcome.to_string());
        if !is_right(&outcome) {
            let said: String = outcome.text().chars().take(300).collect();
            good.findings.wrong(format!("{ATTEMPTS}: {outcome} {said}"));
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Time since 1970 at which a query began, by its answer; `None` if that is not the right one.
fn began(outcome: &Outcome) -> Option<Duration> {
    let answer = outcome.json();
    // ClickHouse writes 64 bits as a number or as a text, by its settings.
    let number = |name: &str| match answer.pointer(&format!("/data/0/{name}"))? {
        Value::String(text) => text.parse::<u64>().ok(),
        number => number.as_u64(),
    };
    let is_answer = outcome.status() == 200 && number("slept") == Some(0);
    let micros = number("began").filter(|_| is_answer);
    micros.map(Duration::from_micros)
}

/// Returns true for the right answer, and for those of an engine or an API that others keep busy:
/// no memory or no place. That a query was stopped is neither.
fn is_right(outcome: &Outcome) -> bool {
    match outcome.status() {
        200 => began(outcome).is_some(),
        400 => text(&outcome.json(), "/code").as_deref() == Some("query_limit_exceeded"),
        status => matches!(status, 429 | 503),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_somebody_stopped_is_a_violation() {
        for (status, body, seconds, is_expected) in [
            (
                200,
                r#"{"data":[{"began":7000000,"slept":0}]}"#,
                Some(7),
                true,
            ),
            (
                200,
                r#"{"data":[{"began":"7000000","slept":0}]}"#,
                Some(7),
                true,
            ),
            (200, r#"{"data":[{"began":7000000"#, None, false),
            (400, r#"{"code":"query_stopped"}"#, None, false),
            (400, r#"{"code":"query_limit_exceeded"}"#, None, true),
            (404, r#"{"code":"not_found"}"#, None, false),
            (503, "", None, true),
        ] {
            let outcome = Outcome::Response {
                status,
                body: body.to_owned(),
            };
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(began(&outcome), expected, "{status} {body}");
            assert_eq!(is_right(&outcome), is_expected, "{status} {body}");
        }
        assert!(!is_right(&Outcome::Cut));
    }
}
