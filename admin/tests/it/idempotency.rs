//! The same request twice.

use crate::Fixture;
use crate::fixture::Answer;
use serde_json::{Value, json};

on_both!(
    a_request_that_is_sent_again_is_made_once,
    failures_are_not_kept,
    secrets_are_null_in_the_replay,
    keys_have_a_form,
);
on_both!(threads: of_many_at_the_same_time_one_is_made);

const ALL: &str = "/api/organizations/";
const KEYS: &str = "/api/personal_api_keys/";

async fn post(fixture: &Fixture, bearer: &str, path: &str, key: &str, body: &Value) -> Answer {
    let bearer = format!("Bearer {bearer}");
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", key)];
    let body = body.to_string();
    fixture
        .request("POST", path, &headers, body.as_bytes())
        .await
}

async fn a_request_that_is_sent_again_is_made_once() {
    let fixture = Fixture::new().await;
    let owner = fixture.owner_key();
    let acme = json!({ "name": "Acme" });
    let first = post(&fixture, owner, ALL, "one", &acme).await;
    assert_eq!(
        (first.status, first.header("idempotent-replayed")),
        (201, "")
    );
    for path in [ALL, "/api/organizations"] {
        let again = post(&fixture, owner, path, "one", &acme).await;
        assert_eq!(
            (again.status, again.header("idempotent-replayed")),
            (201, "true")
        );
        assert_eq!(again.body, first.body);
    }
    assert_eq!(fixture.get(ALL).await.body["count"], 2);

    let other_body = post(&fixture, owner, ALL, "one", &json!({ "name": "B" })).await;
    assert_eq!(other_body.error(), (409, "idempotency_mismatch", None));
    assert_eq!(other_body.body["type"], "server_error");
    let other_owner = fixture.key(&["*"]).await;
    let table = [(owner, "two"), (other_owner.as_str(), "one")];
    for (bearer, key) in table {
        let other = post(&fixture, bearer, ALL, key, &acme).await;
        assert_eq!(
            (other.status, other.header("idempotent-replayed")),
            (201, "")
        );
    }
    assert_eq!(fixture.get(ALL).await.body["count"], 4);
}

async fn failures_are_not_kept() {
    let fixture = Fixture::new().await;
    let owner = fixture.owner_key();
    for status in [400, 400] {
        let refused = post(&fixture, owner, ALL, "one", &json!({})).await;
        assert_eq!(
            (refused.status, refused.header("idempotent-replayed")),
            (status, "")
        );
    }
    assert_eq!(
        post(&fixture, owner, ALL, "one", &json!({ "name": "A" }))
            .await
            .status,
        201
    );
}

async fn secrets_are_null_in_the_replay() {
    let fixture = Fixture::new().await;
    let owner = fixture.owner_key();
    let new = json!({ "label": "A", "scopes": ["role:read"] });
    let first = post(&fixture, owner, KEYS, "one", &new).await;
    assert!(first.body["value"].as_str().unwrap().starts_with("phx_"));
    let again = post(&fixture, owner, KEYS, "one", &new).await;
    let mut expected = first.body.clone();
    expected["value"] = Value::Null;
    assert_eq!((again.status, again.body), (201, expected));
}

async fn keys_have_a_form() {
    let fixture = Fixture::new().await;
    let owner = fixture.owner_key();
    let table = [
        ("x".repeat(255), 201),
        ("x".repeat(256), 400),
        (String::new(), 400),
    ];
    for (key, status) in table {
        let answer = post(&fixture, owner, ALL, &key, &json!({ "name": "A" })).await;
        assert_eq!(answer.status, status, "{}", key.len());
    }
}

async fn of_many_at_the_same_time_one_is_made() {
    let fixture = std::sync::Arc::new(Fixture::new().await);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let fixture = fixture.clone();
        tasks.spawn(async move {
            let owner = fixture.owner_key();
            post(&fixture, owner, ALL, "one", &json!({ "name": "Acme" })).await
        });
    }
    let answers = tasks.join_all().await;
    let made = answers
        .iter()
        .filter(|it| it.status == 201 && it.header("idempotent-replayed").is_empty());
    assert_eq!(made.count(), 1);
    for answer in &answers {
        let in_progress = answer.error() == (409, "idempotency_in_progress", None);
        assert!(answer.status == 201 || in_progress, "{answer:?}");
    }
    assert_eq!(fixture.get(ALL).await.body["count"], 2);
}
