//! Tests of the requests that a server receives.

use super::receiver::{Receiver, ScriptedAnswer};
use crate::dialler::loopback;
use crate::rows::{delivered, event, lines, run};
use millrace_exports::destination::Destination;
use millrace_exports::destination::TestStep::{Authenticate, Reach};
use millrace_exports::destination::calls::RetryPolicy;
use millrace_exports::destination::http::Http;
use millrace_exports::destination::no_op::NoOp;
use millrace_exports::{ExportError, ExportErrorKind};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

const TOKEN: &str = "canary-token";

/// Retries without pauses.
fn retry_policy() -> RetryPolicy {
    RetryPolicy {
        timeout: Duration::from_secs(600),
        delay_min: Duration::ZERO,
        delay_max: Duration::ZERO,
        tries_max: 4,
        ..RetryPolicy::default()
    }
}

fn http(port: u16, path: &str, retry_policy: RetryPolicy) -> Http {
    let config = json!({"url": format!("http://127.0.0.1:{port}{path}")});
    let secrets = BTreeMap::from([("token".to_owned(), TOKEN.to_owned())]);
    Http::open(&config, &secrets, loopback(), retry_policy).unwrap()
}

fn refusal<T>(outcome: Result<T, ExportError>) -> ExportError {
    let Err(error) = outcome else {
        panic!("it succeeded");
    };
    assert!(!format!("{error:?} {error}").contains(TOKEN), "{error}");
    error
}

#[tokio::test]
async fn events_are_sent_as_lines_in_bounded_batches_with_their_own_keys() {
    let receiver = Receiver::start(&[]).await;
    let http = http(receiver.port, "/events", retry_policy());
    let sent = lines((0..2_500).map(event));
    let outcome = delivered(&http, &run(0), &sent).await.unwrap();
    assert_eq!(
        (outcome.rows, outcome.bytes),
        (Some(2_500), sent.len() as u64)
    );
    let requests = receiver.requests();
    let sizes: Vec<_> = requests
        .iter()
        .map(|request| request.lines().len())
        .collect();
    assert_eq!(sizes, [1_000, 1_000, 500]);
    let bodies: Vec<u8> = requests
        .iter()
        .flat_map(|request| request.body.clone())
        .collect();
    assert_eq!(bodies, sent.as_bytes());
    for (number, request) in requests.iter().enumerate() {
        assert_eq!(
            (request.method.as_str(), request.target.as_str()),
            ("POST", "/events")
        );
        assert_eq!(request.headers["authorization"], format!("Bearer {TOKEN}"));
        assert_eq!(request.headers["content-type"], "application/x-ndjson");
        let expected = format!(
            "00000000-0000-0000-0000-000000000007/arrival/2026-11-20T00:00:00Z/2026-11-20T01:00:00Z/{number}/"
        );
        assert!(request.key().starts_with(&expected), "{}", request.key());
    }
    // The same window once more has the same keys for the same bodies.
    delivered(&http, &run(0), &sent).await.unwrap();
    let all = receiver.requests();
    let (first, second) = all.split_at(3);
    for (first, second) in first.iter().zip(second) {
        assert_eq!((first.key(), &first.body), (second.key(), &second.body));
    }
}

#[tokio::test]
async fn our_own_ingestion_gets_its_format() {
    let receiver = Receiver::start(&[]).await;
    let http = http(receiver.port, "/batch/", retry_policy());
    delivered(&http, &run(0), &lines([event(1), event(2)]))
        .await
        .unwrap();
    let requests = receiver.requests();
    let body = requests[0].json();
    let bare = |number| {
        let mut event = event(number);
        for own in ["created_at", "team_id", "historical_migration"] {
            event.as_object_mut().unwrap().remove(own);
        }
        event
    };
    let expected = json!({
        "api_key": TOKEN,
        "historical_migration": true,
        "batch": [bare(1), bare(2)],
    });
    assert_eq!(body, expected);
    assert!(!requests[0].headers.contains_key("authorization"));
}

#[tokio::test]
async fn only_passing_failures_are_retried_under_the_same_key() {
    let passing = [
        ScriptedAnswer::Status(429, ""),
        ScriptedAnswer::Status(503, "retry-after: 0\r\n"),
        ScriptedAnswer::Status(500, ""),
        ScriptedAnswer::Status(408, ""),
        ScriptedAnswer::Status(409, ""),
        ScriptedAnswer::CutEarly,
        ScriptedAnswer::CutLate,
        ScriptedAnswer::CutWithin,
    ];
    for answer in passing {
        let receiver = Receiver::start(&[ScriptedAnswer::Status(200, ""), answer.clone()]).await;
        let http = http(receiver.port, "/", retry_policy());
        let sent = lines((0..3_000).map(event));
        delivered(&http, &run(0), &sent).await.unwrap();
        let mut bodies = BTreeMap::new();
        let mut numbers = Vec::new();
        for request in receiver.requests() {
            let known = bodies
                .entry(request.key().to_owned())
                .or_insert(request.body.clone());
            assert_eq!(*known, request.body, "one key, one body");
            numbers.push(request.lines()[0]["properties"]["number"].as_u64().unwrap());
        }
        // Only the batch with this answer is sent twice, and only if it was read.
        let expected: &[u64] = match answer {
            ScriptedAnswer::CutEarly => &[0, 1_000, 2_000],
            _ => &[0, 1_000, 1_000, 2_000],
        };
        assert_eq!(numbers, expected, "{answer:?}");
        assert_eq!(bodies.len(), 3, "{answer:?}");
    }
}

#[tokio::test]
async fn the_pause_that_a_server_asks_for_is_kept() {
    let receiver = Receiver::start(&[ScriptedAnswer::Status(429, "retry-after: 0\r\n")]).await;
    let far = Duration::from_secs(86_400);
    // Its own pause would be a day.
    let patient = RetryPolicy {
        delay_min: far,
        delay_max: far,
        ..retry_policy()
    };
    delivered(
        &http(receiver.port, "/", patient),
        &run(0),
        &lines([event(1)]),
    )
    .await
    .unwrap();
    assert_eq!(receiver.requests().len(), 2);
    // The server's pause has an upper limit.
    let receiver = Receiver::start(&[ScriptedAnswer::Status(503, "retry-after: 86400\r\n")]).await;
    delivered(
        &http(receiver.port, "/", retry_policy()),
        &run(0),
        &lines([event(1)]),
    )
    .await
    .unwrap();
    assert_eq!(receiver.requests().len(), 2);
}

#[tokio::test]
async fn a_server_that_never_accepts_is_given_up_after_the_last_try() {
    let table = [
        ScriptedAnswer::Status(503, ""),
        ScriptedAnswer::CutLate,
        ScriptedAnswer::Stall,
    ];
    for answer in table {
        let receiver = Receiver::start(&vec![answer.clone(); 9]).await;
        let soon = RetryPolicy {
            timeout: Duration::from_millis(50),
            ..retry_policy()
        };
        let http = http(receiver.port, "/", soon);
        let error = refusal(delivered(&http, &run(0), &lines([event(1)])).await);
        assert_eq!(error.kind, ExportErrorKind::Retryable, "{answer:?}");
        if !matches!(answer, ScriptedAnswer::Stall) {
            assert_eq!(receiver.requests().len(), 4, "{answer:?}");
        }
        assert!(receiver.requests().len() <= 4, "{answer:?}");
    }
}

#[tokio::test]
async fn of_an_endless_body_nothing_is_read_and_the_run_goes_on() {
    // Statuses of the first answers, number of requests, and whether the run succeeds.
    let table: [(&[u16], usize, bool); 4] = [
        (&[200, 200, 200], 3, true),
        (&[503, 200, 429, 200], 5, true),
        (&[400], 1, false),
        (&[503, 503, 503, 503], 4, false),
    ];
    for (statuses, requests, succeeds) in table {
        let answers: Vec<_> = statuses
            .iter()
            .map(|status| ScriptedAnswer::Endless(*status))
            .collect();
        let receiver = Receiver::start(&answers).await;
        let http = http(receiver.port, "/", retry_policy());
        let sent = lines((0..2_500).map(event));
        let outcome = delivered(&http, &run(0), &sent).await;
        assert_eq!(outcome.is_ok(), succeeds, "{statuses:?}");
        assert_eq!(receiver.requests().len(), requests, "{statuses:?}");
        // Some of each is in buffers.
        let taken = receiver.taken_bytes() / statuses.len();
        assert!(taken < 32 << 20, "{taken} of each: {statuses:?}");
    }
    // Neither does the test of a server read one.
    let receiver = Receiver::start(&[ScriptedAnswer::Endless(200)]).await;
    let http = http(receiver.port, "/", retry_policy());
    http.test(Authenticate).await.unwrap();
    let taken = receiver.taken_bytes();
    assert!(taken < 32 << 20, "{taken}");
}

#[tokio::test]
async fn a_refusal_is_not_retried_and_says_what_to_do() {
    let table = [
        (401, "", "did not accept the token"),
        (403, "", "did not accept the token"),
        (404, "", "does not lead to"),
        (
            302,
            "location: http://127.0.0.1:1/canary-token\r\n",
            "redirects are not followed",
        ),
        (
            308,
            "location: http://127.0.0.1:1/\r\n",
            "redirects are not followed",
        ),
        (400, "", "refused a batch"),
        (413, "", "refused a batch"),
    ];
    for (status, headers, sentence) in table {
        let receiver = Receiver::start(&[ScriptedAnswer::Status(status, headers)]).await;
        let http = http(receiver.port, "/", retry_policy());
        let error = refusal(delivered(&http, &run(0), &lines([event(1)])).await);
        assert_eq!(error.kind, ExportErrorKind::Permanent, "{status}");
        assert!(error.message.contains(sentence), "{error}");
        assert_eq!(receiver.requests().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_window_without_events_sends_nothing() {
    let receiver = Receiver::start(&[]).await;
    let outcome = delivered(&http(receiver.port, "/", retry_policy()), &run(0), "")
        .await
        .unwrap();
    assert_eq!(outcome.rows, Some(0));
    assert!(receiver.requests().is_empty());
}

#[tokio::test]
async fn fewer_rows_than_were_read_fail_the_run() {
    let receiver = Receiver::start(&[]).await;
    let http = http(receiver.port, "/", retry_policy());
    let mut delivery = http.begin(&run(0), 1).await.unwrap();
    delivery.write(lines([event(1)]).into()).await.unwrap();
    refusal(delivery.end_part(2).await);
}

#[tokio::test]
async fn the_test_of_a_server_fails_where_an_export_would() {
    let table = [
        (200, true),
        (204, true),
        // An empty batch may be refused.
        (400, true),
        (401, false),
        (403, false),
        (404, false),
        (302, false),
        (500, false),
    ];
    for (status, passes) in table {
        let receiver = Receiver::start(&[ScriptedAnswer::Status(status, "")]).await;
        let http = http(receiver.port, "/batch", retry_policy());
        assert_eq!(http.test_steps(), [Reach, Authenticate]);
        http.test(Reach).await.unwrap();
        assert_eq!(http.test(Authenticate).await.is_ok(), passes, "{status}");
        assert!(
            !receiver.requests()[0]
                .headers
                .contains_key("idempotency-key")
        );
    }
    refusal(http(1, "/", retry_policy()).test(Reach).await);
}

#[tokio::test]
async fn the_no_op_destination_accepts_everything() {
    let sent = lines((0..10).map(event));
    let outcome = delivered(&NoOp, &run(0), &sent).await.unwrap();
    assert_eq!((outcome.rows, outcome.bytes), (Some(10), sent.len() as u64));
    assert!(NoOp.test_steps().is_empty());
}
