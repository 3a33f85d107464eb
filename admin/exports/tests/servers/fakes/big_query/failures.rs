//! Tests of failures of BigQuery: what passes, and what is left by it.

use super::{API, FakeBigQuery, big_query, big_query_by, check, started, started_with};
use crate::fakes::server::{Fake, Reply, google_error, impatient_deps, refusal};
use crate::rows::{delivered, lines, row, run};
use crate::wire::Request;
use millrace_exports::ExportErrorKind::{Permanent, Retryable};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Message of Google with a secret.
const CANARY: &str = "canary-user";
/// Message about a MERGE that met another one.
const CONCURRENT: &str = "Could not serialize access to table canary-user due to concurrent update";

/// Job that failed.
fn done(reason: &str, message: &str) -> Value {
    let error = json!({"reason": reason, "message": message});
    json!({"jobReference": {}, "status": {"state": "DONE", "errorResult": error}})
}

/// Body of a request that is refused.
fn refused(reason: &str) -> Value {
    google_error(403, reason).body
}

#[tokio::test]
async fn a_server_that_takes_nothing_fails_the_run() {
    let service = Arc::new(Mutex::new(FakeBigQuery::default()));
    service.lock().unwrap().taken_max = Some(0);
    let fake = started(&service).await;
    let (kind, _) = refusal(delivered(&big_query(&fake), &run(0), &lines([row(1)])).await);
    assert_eq!(kind, Retryable);
}

#[tokio::test]
async fn refusals_have_no_secret_in_them() {
    let limit = |status, reason| (status, refused(reason), Retryable, reason);
    let table = [
        (403, json!({}), Permanent, "rights"),
        (403, refused("accessDenied"), Permanent, "rights"),
        (403, refused("billingNotEnabled"), Permanent, "rights"),
        limit(403, "rateLimitExceeded"),
        limit(403, "userRateLimitExceeded"),
        limit(403, "quotaExceeded"),
        limit(400, "jobRateLimitExceeded"),
        limit(403, "backendError"),
        (404, json!({}), Permanent, "not find"),
        (401, json!({}), Permanent, "credentials"),
        (503, json!({}), Retryable, "503"),
        (200, done("notFound", CANARY), Retryable, "notFound"),
        (200, done("invalid", CANARY), Permanent, "invalid"),
        (200, done("invalidQuery", CANARY), Permanent, "invalidQuery"),
        (
            200,
            done("invalidQuery", CONCURRENT),
            Retryable,
            "at the same time",
        ),
        (200, done("backendError", CANARY), Retryable, "backendError"),
    ];
    for (status, body, kind, sentence) in table {
        let fake = Fake::start(move |request| match request.target.as_str() {
            "/token" => Reply::json(200, json!({"access_token": "t", "expires_in": 3599})),
            _ => Reply {
                headers: vec![(
                    "location",
                    format!("http://{}/session", request.headers["host"]),
                )],
                ..Reply::json(status, body.clone())
            },
        });
        let fake = fake.await;
        let (found, message) =
            refusal(delivered(&big_query(&fake), &run(0), &lines([row(1)])).await);
        assert_eq!(found, kind, "{status}");
        assert!(message.contains(sentence), "{status}: {message}");
    }
    let fake = Fake::start(|_| Reply::json(400, json!({"error": "invalid_grant"}))).await;
    let (kind, message) = refusal(delivered(&big_query(&fake), &run(0), "").await);
    assert_eq!((kind, message.contains("credentials")), (Permanent, true));
}

#[tokio::test]
async fn an_upload_that_was_ended_is_begun_anew_by_another_try() {
    for status in [404, 410] {
        let service = Arc::new(Mutex::new(FakeBigQuery::default()));
        let mut is_ended = true;
        let fault = move |request: &Request| {
            let is_refused = request.method == "PUT" && std::mem::take(&mut is_ended);
            is_refused.then(|| Reply::json(status, Value::Null))
        };
        let fake = started_with(&service, fault).await;
        let big_query = big_query(&fake);
        let rows = lines((0..3).map(row));
        let (kind, message) = refusal(delivered(&big_query, &run(0), &rows).await);
        assert_eq!(kind, Retryable, "{status}: {message}");
        assert!(message.contains("upload"), "{status}: {message}");
        delivered(&big_query, &run(0), &rows).await.unwrap();
        check(&service.lock().unwrap(), 3);
    }
}

#[tokio::test]
async fn a_load_or_a_merge_that_fails_leaves_no_staging_table() {
    for (step, reason, message, expected) in [
        ("_load", "invalid", CANARY, Permanent),
        ("_load", "backendError", CANARY, Retryable),
        ("_merge", "invalidQuery", CANARY, Permanent),
        ("_merge", "accessDenied", CANARY, Permanent),
        ("_merge", "invalidQuery", CONCURRENT, Retryable),
    ] {
        let service = Arc::new(Mutex::new(FakeBigQuery::default()));
        let fault = move |request: &Request| {
            let is_merge = request.target == format!("{API}/jobs");
            let job = request.target.strip_prefix(&format!("{API}/jobs/"));
            match job {
                Some(job) if job.contains(step) => Some(Reply::json(200, done(reason, message))),
                // It is not carried out.
                _ if is_merge => Some(Reply::json(200, json!({}))),
                _ => None,
            }
        };
        let fake = started_with(&service, fault).await;
        let rows = lines((0..3).map(row));
        let (kind, message) = refusal(delivered(&big_query(&fake), &run(0), &rows).await);
        assert_eq!(kind, expected, "{step} {reason}: {message}");
        let service = service.lock().unwrap();
        assert_eq!(service.events.len(), 0, "{step} {reason}");
        assert_eq!(service.columns.len(), 2, "there was a staging table");
        let left: Vec<&String> = service.tables.keys().collect();
        assert_eq!(left, ["events"], "{step} {reason}");
    }
}

#[tokio::test]
async fn a_job_that_never_ends_fails_the_try() {
    for step in ["_load", "_merge"] {
        let service = Arc::new(Mutex::new(FakeBigQuery::default()));
        let fault = move |request: &Request| {
            let is_merge = request.target == format!("{API}/jobs");
            let job = request.target.strip_prefix(&format!("{API}/jobs/"));
            let running = json!({"jobReference": {}, "status": {"state": "RUNNING"}});
            match job {
                Some(job) if job.contains(step) => Some(Reply::json(200, running)),
                // It is not carried out.
                _ if is_merge => Some(Reply::json(200, json!({}))),
                _ => None,
            }
        };
        let fake = started_with(&service, fault).await;
        let big_query = big_query_by(&fake, impatient_deps);
        let (kind, message) = refusal(delivered(&big_query, &run(0), &lines([row(1)])).await);
        assert_eq!(kind, Retryable, "{step}: {message}");
        assert!(message.contains("took too long"), "{step}: {message}");
        assert_eq!(service.lock().unwrap().events.len(), 0, "{step}");
    }
}

#[tokio::test]
async fn a_load_that_takes_too_long_is_cancelled_before_its_table_is_dropped() {
    let service = Arc::new(Mutex::new(FakeBigQuery::default()));
    service.lock().unwrap().is_slow = true;
    let fake = started(&service).await;
    let big_query = big_query_by(&fake, impatient_deps);
    let (kind, message) = refusal(delivered(&big_query, &run(0), &lines([row(1)])).await);
    assert_eq!(kind, Retryable, "{message}");
    assert!(message.contains("took too long"), "{message}");
    let service = service.lock().unwrap();
    let left: Vec<&String> = service.tables.keys().collect();
    assert_eq!(left, ["events"]);
    let is_stopped =
        |job: &Value| job.pointer("/status/errorResult/reason") == Some(&json!("stopped"));
    assert!(service.jobs.values().any(is_stopped));
}
