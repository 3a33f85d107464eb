//! Idempotency keys: requests that are sent again.

use crate::Fixture;
use crate::fixture::TestResponse;
use millrace_catalog::Level;
use serde_json::{Value, json};

on_both!(
    a_request_that_is_sent_again_is_made_once,
    failures_are_not_replayed,
    secrets_are_null_in_the_replay,
    keys_of_invalid_length_are_refused,
    a_key_is_the_same_for_every_spelling_of_a_path,
    ids_in_other_forms_are_not_found,
    new_keys_are_refused_where_too_many_responses_are_kept,
);
on_both!(threads: only_one_of_many_concurrent_requests_is_made);

const ALL: &str = "/api/organizations/";
const KEYS: &str = "/api/personal_api_keys/";

async fn post(
    fixture: &Fixture,
    bearer: &str,
    path: &str,
    key: &str,
    body: &Value,
) -> TestResponse {
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
    assert_eq!(other_body.body["type"], "invalid_request");
    let other_owner = fixture.key(&["*"]).await;
    let theirs = fixture.foreign_organization().await;
    fixture
        .member_of(theirs, "eve@theirs.example", Level::Owner)
        .await;
    let stranger = fixture.key_of("eve@theirs.example", &["*"]).await;
    let table = [
        (owner, "two"),
        (other_owner.as_str(), "one"),
        (stranger.as_str(), "one"),
    ];
    for (bearer, key) in table {
        let other = post(&fixture, bearer, ALL, key, &acme).await;
        assert_eq!(
            (other.status, other.header("idempotent-replayed")),
            (201, "")
        );
    }
    assert_eq!(fixture.get(ALL).await.body["count"], 4);
}

async fn failures_are_not_replayed() {
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

async fn keys_of_invalid_length_are_refused() {
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

async fn a_key_is_the_same_for_every_spelling_of_a_path() {
    let fixture = Fixture::new().await;
    let owner = fixture.owner_key();
    let (organization, project) = (fixture.made.organization_id, fixture.made.project_id.0);
    let export = json!({
        "name": "A", "interval": "hour", "destination": { "type": "NoOp" }, "paused": true,
    });
    let spelled = organization.to_string();
    let here = [
        "@current".to_owned(),
        spelled.to_uppercase(),
        spelled.replace('-', "%2D"),
        spelled,
    ];
    let same = |rest: &str| here.clone().map(|id| format!("{ALL}{id}/{rest}"));
    let exports = same("batch_exports/");
    let made = post(&fixture, owner, &exports[0], "made", &export).await;
    let id = made.body["id"].as_str().unwrap().to_owned();
    let upper = id.to_uppercase();
    let table: [(Vec<String>, Value); 4] = [
        (same("batch_exports/").to_vec(), export.clone()),
        (same("projects/").to_vec(), json!({ "name": "Second" })),
        (
            ["@current".to_owned(), project.to_string()]
                .map(|id| format!("/api/projects/{id}/batch_exports/"))
                .to_vec(),
            export,
        ),
        (
            [&id, &upper]
                .map(|id| format!("{ALL}@current/batch_exports/{id}/backfill/"))
                .to_vec(),
            json!({ "start_at": "2026-01-01T00:00:00Z", "end_at": "2026-01-02T00:00:00Z" }),
        ),
    ];
    for (paths, body) in table {
        let mut answers = Vec::new();
        for path in &paths {
            answers.push(post(&fixture, owner, path, "one", &body).await);
        }
        assert!([200, 201].contains(&answers[0].status), "{:?}", answers[0]);
        for (path, answer) in paths.iter().zip(&answers).skip(1) {
            assert_eq!(answer.header("idempotent-replayed"), "true", "{path}");
            assert_eq!(answer.body, answers[0].body, "{path}");
        }
    }
    // The key is free at the path of another organization.
    let other = fixture.call("POST", ALL, &json!({ "name": "B" })).await;
    let theirs = format!("{ALL}{}/projects/", other.body["id"].as_str().unwrap());
    let second = json!({ "name": "Second" });
    let made = post(&fixture, owner, &theirs, "one", &second).await;
    assert_eq!((made.status, made.header("idempotent-replayed")), (201, ""));
}

async fn ids_in_other_forms_are_not_found() {
    let fixture = Fixture::new().await;
    let owner = fixture.owner_key();
    let organization = fixture.made.organization_id;
    let role = json!({ "name": "A" });
    let roles = format!("{ALL}{organization}/roles/");
    let role = fixture.call("POST", &roles, &role).await;
    let role: uuid::Uuid = role.body["id"].as_str().unwrap().parse().unwrap();
    let forms = |id: uuid::Uuid| {
        [
            (id.to_string(), true),
            (id.to_string().to_uppercase(), true),
            (id.simple().to_string(), false),
            (id.braced().to_string(), false),
            (id.urn().to_string(), false),
        ]
    };
    for (id, is_id) in forms(organization) {
        let encoded = id.replace('{', "%7B").replace('}', "%7D");
        let path = format!("{ALL}{encoded}/");
        let expected = if is_id { 200 } else { 404 };
        assert_eq!(fixture.get(&path).await.status, expected, "{id}");
        let projects = format!("{path}projects/");
        let made = post(&fixture, owner, &projects, &id, &json!({ "name": "A" })).await;
        let expected = if is_id { 201 } else { 404 };
        assert_eq!(made.status, expected, "{id}: {made:?}");
    }
    for (id, is_id) in forms(role) {
        let encoded = id.replace('{', "%7B").replace('}', "%7D");
        let path = format!("{roles}{encoded}/");
        let expected = if is_id { 200 } else { 404 };
        assert_eq!(fixture.get(&path).await.status, expected, "{id}");
        let renamed = fixture.call("PATCH", &path, &json!({ "name": "A" })).await;
        assert_eq!(renamed.status, expected, "{id}");
    }
}

async fn new_keys_are_refused_where_too_many_responses_are_kept() {
    let fixture = Fixture::new().await;
    let (owner, organization) = (fixture.owner_key(), fixture.made.organization_id);
    let colleague = fixture.member("bob@example.com", Level::Owner).await;
    let roles = format!("{ALL}{organization}/roles/");
    let (known, new) = (json!({ "name": "A" }), json!({ "name": "B" }));
    let made = post(&fixture, owner, &roles, "one", &known).await;
    assert_eq!(made.status, 201, "{made:?}");
    // Bytes of the owner, and of the organization.
    for (of_user, of_organization) in [(64 << 20, 0), (256 << 10, 256 << 20)] {
        let kept = format!(
            "UPDATE idempotency_bytes SET bytes = CASE WHEN holder LIKE 'user %' THEN {of_user} \
             ELSE {of_organization} END"
        );
        fixture.execute(&kept).await;
        let refused = post(&fixture, owner, &roles, "two", &new).await;
        assert_eq!(refused.error(), (429, "throttled", None), "{of_user}");
        assert_ne!(refused.header("retry-after"), "");
        assert_eq!(fixture.get(&roles).await.body["count"], 1);
        let replay = post(&fixture, owner, &roles, "one", &known).await;
        assert_eq!(
            (replay.status, replay.header("idempotent-replayed")),
            (201, "true")
        );
    }
    // Without a key nothing is kept, and the organization's most keeps no colleague out.
    assert_eq!(fixture.call("POST", &roles, &new).await.status, 201);
    let other = post(&fixture, &colleague, &roles, "one", &json!({ "name": "C" })).await;
    assert_eq!(other.status, 201, "{other:?}");
}

async fn only_one_of_many_concurrent_requests_is_made() {
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
