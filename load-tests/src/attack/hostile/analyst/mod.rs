//! An analyst who has ClickHouse's password, tries to read more than events, and takes all that the
//! port permits.
//!
//! | File | Does |
//! |---|---|
//! | [`statements`] | sends statements that the password must not allow |
//! | [`memory`] | sends queries and stores rows that need all of the engine's memory |
//! | [`connections`] | leaves answers unread, sends bodies slowly and heads without an end |
//! | [`forms`] | sends forms, whole and cut |

pub(super) mod connections;
pub(super) mod forms;
pub(super) mod memory;
pub(super) mod statements;

use super::context::AttackContext;
use crate::attack::http::{Outcome, request};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::sync::Arc;
use tokio::time::sleep;

/// Allowed queries that cost something.
const READS: [&str; 3] = [
    "SELECT event, count() FROM millrace.events GROUP BY event",
    "SELECT uniqExact(distinct_id), max(length(properties)) FROM millrace.events",
    "SELECT count() FROM millrace.events_with_persons WHERE person_properties LIKE '%p1%'",
];

impl AttackContext {
    /// Sends a statement with the analysts' password.
    async fn query(&self, method: &str, path: &str, sql: &str) -> Outcome {
        let sent = self.with_login(method, path, &[], sql.as_bytes());
        self.analyst.send(&sent).await
    }

    /// A request with the analysts' password.
    fn with_login(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Vec<u8> {
        let login = format!("{}:{}", self.clickhouse.user, self.clickhouse.password);
        let login = format!("Basic {}", BASE64_STANDARD.encode(login));
        let headers = [&[("Authorization", login.as_str())][..], headers].concat();
        request(method, path, &headers, body)
    }
}

/// ClickHouse's error code in a response, or the outcome if there is no code.
fn answer(outcome: &Outcome) -> String {
    let text = outcome.text().trim_start();
    // ClickHouse answers in chunks: the first line is the length of the first one.
    let text = match text.split_once("\r\n") {
        Some((length, chunk)) if length.bytes().all(|byte| byte.is_ascii_hexdigit()) => chunk,
        _ => text,
    };
    let code = text.strip_prefix("Code: ");
    let code = code.and_then(|text| text.split_once('.'));
    match code {
        Some((code, _)) if code.bytes().all(|byte| byte.is_ascii_digit()) => format!("code {code}"),
        _ => outcome.to_string(),
    }
}

/// Sends moderate queries. Their cost is not bounded, as `deploy/THREATS.md` says.
pub(super) async fn reads(context: Arc<AttackContext>) {
    loop {
        for sql in READS {
            let outcome = context.query("POST", "/", sql).await;
            // ClickHouse refuses a query that takes too long or too much memory with 500.
            let answered = answer(&outcome);
            context.findings.count("reads of an analyst", &answered);
            sleep(context.pause * 50).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_counted_by_its_code() {
        for (body, told) in [
            (
                "Code: 497. DB::Exception: default: Not enough privileges.",
                "code 497",
            ),
            (
                "4B\r\nCode: 497. DB::Exception: default: Not enough privileges.",
                "code 497",
            ),
            ("Code: x. y", "500"),
            ("no code", "500"),
        ] {
            let outcome = Outcome::Response {
                status: 500,
                body: body.to_owned(),
            };
            assert_eq!(answer(&outcome), told);
        }
        assert_eq!(answer(&Outcome::Late), "late");
    }
}
