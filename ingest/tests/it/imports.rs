//! Imports: volume, rate, and the responses beyond them.

use crate::test_env::{KEY, TestEnv, batch, event};
use millrace_catalog::MigrationState;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Time that anything may take before a test fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

const ROAD: &str = "/api/organizations/<organization id>/historical_migrations/";

/// Builds an import of so many events.
fn import(events: usize) -> String {
    let events = vec![event("old"); events];
    json!({"api_key": KEY, "historical_migration": true, "batch": events}).to_string()
}

fn send(env: &TestEnv, events: usize) -> (u16, Value, Option<u32>) {
    let answer = env.post("/batch/", import(events));
    let retry_after = answer.header("retry-after").map(|it| it.parse().unwrap());
    (answer.status, answer.json(), retry_after)
}

/// Asks until the answer is as expected, as decisions of operators hold within seconds.
fn until<T: std::fmt::Debug>(mut ask: impl FnMut() -> T, is_there: impl Fn(&T) -> bool) -> T {
    let started = Instant::now();
    loop {
        let seen = ask();
        if is_there(&seen) {
            return seen;
        }
        assert!(started.elapsed() < TEST_TIMEOUT, "{seen:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn any_project_may_import_ten_thousand_events_a_minute() {
    let env = TestEnv::start();
    let (status, body, _) = send(&env, 10_001);
    let said = (status, &body["type"], &body["code"]);
    let (kind, code) = (json!("invalid_request"), json!("batch_exceeds_rate"));
    assert_eq!(said, (413, &kind, &code));
    assert_eq!(send(&env, 10_000).0, 200);
    let (status, body, retry_after) = send(&env, 500);
    assert_eq!((status, retry_after), (429, Some(3)), "{body}");
    assert_eq!(body["type"], "throttled_error");
    assert_eq!(body["code"], "migration_rate_exceeded");
    assert!(body["detail"].as_str().unwrap().contains("10000"), "{body}");
    assert_eq!(body["attr"], Value::Null);
    env.pass(Duration::from_secs(3));
    let (status, ..) = until(|| send(&env, 500), |(status, ..)| *status == 200);
    assert_eq!(status, 200);
    assert_eq!(env.rows().events.len(), 10_500);
}

#[test]
fn an_import_is_accepted_after_retry_after_and_not_before() {
    let env = TestEnv::start();
    env.grant(1_000_000, 60);
    until(|| send(&env, 60).0, |status| *status == 200);
    for (events, seconds) in [(1, 1), (7, 7), (45, 45), (60, 60)] {
        let (status, body, retry_after) = send(&env, events);
        assert_eq!((status, retry_after), (429, Some(seconds)), "{body}");
    }
    env.pass(Duration::from_secs(44));
    let early = until(|| send(&env, 45), |(_, _, after)| *after == Some(1));
    assert_eq!(early.0, 429);
    env.pass(Duration::from_secs(1));
    until(|| send(&env, 45).0, |status| *status == 200);
}

#[test]
fn no_more_events_are_imported_than_approved_and_all_or_none_of_a_request() {
    let env = TestEnv::start();
    let migration = env.grant(10, 1_000);
    assert_eq!(send(&env, 6).0, 200);
    let (status, body, retry_after) = send(&env, 5);
    assert_eq!((status, retry_after), (429, None), "no time helps");
    assert_eq!(body["type"], "throttled_error");
    assert_eq!(body["code"], "migration_volume_exceeded");
    let detail = body["detail"].as_str().unwrap();
    assert!(
        detail.contains("4 more") && detail.contains(ROAD),
        "{detail}"
    );
    assert_eq!(send(&env, 4).0, 200);
    assert_eq!(send(&env, 1).1["code"], "migration_volume_exceeded");
    assert_eq!(env.rows().events.len(), 10);
    let done = until(
        || env.migration(migration.id),
        |it| it.events_imported == 10,
    );
    until(
        || env.migration(done.id).state,
        |state| *state == MigrationState::Finished,
    );
    // The next approval holds within seconds.
    env.grant(3, 1_000);
    until(|| send(&env, 3).0, |status| *status == 200);
    assert_eq!(send(&env, 1).1["code"], "migration_volume_exceeded");
}

#[test]
fn only_stored_events_of_imports_count() {
    let env = TestEnv::start();
    let migration = env.grant(10, 1_000);
    let bad = json!({"event": "old"});
    let uuid = "0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6071";
    let mut named = event("old");
    named["uuid"] = json!(uuid);
    let mixed = |events: Value, query: &str| {
        let body = json!({"api_key": KEY, "historical_migration": true, "batch": events});
        env.post(&format!("/batch/{query}"), body.to_string())
            .status
    };
    // Rejected, live, only tried, strict: none counts.
    assert_eq!(mixed(json!([bad, bad, bad]), ""), 400);
    assert_eq!(env.post("/batch/", batch(&["live"; 20])).status, 200);
    assert_eq!(mixed(json!(vec![event("old"); 20]), "?dry_run=true"), 200);
    assert_eq!(mixed(json!([event("old"), bad]), "?strict=true"), 400);
    // Of these one counts; sent again, it is known.
    for _ in 0..3 {
        assert_eq!(mixed(json!([named]), ""), 200);
    }
    assert_eq!(mixed(json!([event("old"), bad]), ""), 200);
    until(|| env.migration(migration.id), |it| it.events_imported == 2);
    assert_eq!(send(&env, 9).1["code"], "migration_volume_exceeded");
    assert_eq!(send(&env, 8).0, 200);
}

#[test]
fn an_organization_without_the_feature_imports_nothing_and_sends_live_events() {
    let env = TestEnv::start();
    assert_eq!(send(&env, 5).0, 200);
    env.switch_imports(false);
    let (_, body, retry_after) = until(|| send(&env, 1), |(status, ..)| *status == 403);
    assert_eq!(body["type"], "authentication_error");
    assert_eq!(body["code"], "payment_required");
    assert_eq!(retry_after, None);
    assert_eq!(env.post("/batch/", batch(&["live"])).status, 200);
    env.switch_imports(true);
    until(|| send(&env, 1).0, |status| *status == 200);
}

#[test]
fn refusals_in_the_per_event_protocol_have_its_keys() {
    let env = TestEnv::start();
    env.grant(1, 1_000);
    let mut events = vec![event("a"), event("b")];
    for (number, event) in events.iter_mut().enumerate() {
        event["uuid"] = json!(format!("0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f607{number}"));
    }
    let body = json!({"historical_migration": true, "batch": events});
    let key = format!("Bearer {KEY}");
    let headers = [
        ("Authorization", &*key),
        ("Content-Type", "application/json"),
    ];
    let mut client = env.client();
    let answer = client.post(
        "/i/v1/analytics/events",
        &headers,
        body.to_string().as_bytes(),
    );
    assert_eq!(answer.status, 429);
    let said = answer.json();
    assert_eq!(said["error"], "migration_volume_exceeded");
    assert_eq!(said["code"], said["error"]);
    assert_eq!(said["detail"], said["error_description"]);
}
