//! Versions of resources: `ETag`, `If-None-Match`, `If-Match`.

use crate::Fixture;
use crate::fixture::TestResponse;
use futures_util::future::join_all;
use millrace_catalog::Level;
use serde_json::{Value, json};

on_both!(
    a_known_version_is_answered_304,
    a_change_of_another_version_is_refused,
    posts_to_a_list_ignore_if_match,
    members_and_projects_do_not_change_the_version_of_an_organization,
);
on_both!(threads:
    only_one_of_many_changes_of_a_version_is_made,
    only_one_of_two_processes_changes_a_version,
);

const ONE: &str = "/api/organizations/@current/";
const RESET: &str = "/api/organizations/@current/projects/@current/reset_token/";
const PROJECT: &str = "/api/organizations/@current/projects/@current/";

async fn with(
    fixture: &Fixture,
    method: &str,
    path: &str,
    header: (&str, &str),
    body: &str,
) -> TestResponse {
    let bearer = format!("Bearer {}", fixture.owner_key());
    let headers = [("authorization", bearer.as_str()), header];
    fixture
        .request(method, path, &headers, body.as_bytes())
        .await
}

async fn a_known_version_is_answered_304() {
    let fixture = Fixture::new().await;
    let first = fixture.get(ONE).await;
    let tag = first.header("etag").to_owned();
    assert!(tag.starts_with('"') && tag.len() > 2, "{tag}");
    let same = with(&fixture, "GET", ONE, ("if-none-match", &tag), "").await;
    assert_eq!((same.status, same.header("etag")), (304, tag.as_str()));
    assert!(same.body.is_null());
    let by_id = format!("/api/organizations/{}/", fixture.made.organization_id);
    assert_eq!(fixture.get(&by_id).await.header("etag"), tag);

    let changed = fixture.call("PATCH", ONE, &json!({ "name": "New" })).await;
    assert_ne!(changed.header("etag"), tag);
    let other = with(&fixture, "GET", ONE, ("if-none-match", &tag), "").await;
    assert_eq!(
        (other.status, other.header("etag")),
        (200, changed.header("etag"))
    );
    assert_eq!(fixture.get("/api/organizations/").await.header("etag"), "");
}

async fn a_change_of_another_version_is_refused() {
    let fixture = Fixture::new().await;
    let old = fixture.get(ONE).await.header("etag").to_owned();
    let project = fixture.get(PROJECT).await.header("etag").to_owned();
    fixture.call("PATCH", ONE, &json!({ "name": "New" })).await;
    let new = fixture.get(ONE).await.header("etag").to_owned();
    let either = format!("{old}, {new}");
    let weak = format!("W/{new}");
    let table = [
        ("PATCH", ONE, old.as_str(), 412),
        ("PUT", ONE, old.as_str(), 412),
        ("DELETE", ONE, old.as_str(), 412),
        ("PATCH", ONE, weak.as_str(), 412),
        ("PATCH", ONE, either.as_str(), 200),
        ("PATCH", ONE, "*", 200),
        ("PATCH", RESET, old.as_str(), 412),
        ("PATCH", RESET, project.as_str(), 200),
        ("PATCH", RESET, project.as_str(), 412),
    ];
    for (method, path, tag, status) in table {
        let answer = with(
            &fixture,
            method,
            path,
            ("if-match", tag),
            r#"{"name":"New"}"#,
        )
        .await;
        let code = if status == 412 {
            "precondition_failed"
        } else {
            ""
        };
        assert_eq!(
            answer.error(),
            (status, code, None),
            "{method} {path} {tag}"
        );
    }
}

async fn posts_to_a_list_ignore_if_match() {
    let fixture = Fixture::new().await;
    for (path, status) in [("invites/", 201), ("invites/bulk/", 200)] {
        let path = format!("{ONE}{path}");
        let body = json!({ "target_email": format!("{status}@example.com") }).to_string();
        let made = with(&fixture, "POST", &path, ("if-match", "\"old\""), &body).await;
        assert_eq!(made.status, status, "{path} {}", made.body);
    }
    let document = fixture.get("/api/schema/").await.body;
    let bulk = "/api/organizations/{organization_id}/invites/bulk/";
    let bulk = document["paths"][bulk]["post"].to_string();
    assert!(bulk.contains("IdempotencyKey") && !bulk.contains("IfMatch"));
    assert!(!bulk.contains("412"), "{bulk}");
}

async fn only_one_of_many_changes_of_a_version_is_made() {
    let fixture = std::sync::Arc::new(Fixture::new().await);
    let tag = fixture.get(ONE).await.header("etag").to_owned();
    let by_id = format!("/api/organizations/{}/", fixture.made.organization_id);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..16 {
        let (fixture, tag) = (fixture.clone(), tag.clone());
        // Two paths of one resource.
        let path = [ONE, &by_id][number % 2].to_owned();
        tasks.spawn(async move {
            let body = json!({ "name": format!("Name {number}") }).to_string();
            with(&fixture, "PATCH", &path, ("if-match", &tag), &body)
                .await
                .status
        });
    }
    let mut statuses = tasks.join_all().await;
    statuses.sort_unstable();
    let mut expected = vec![412; 16];
    expected[0] = 200;
    assert_eq!(statuses, expected);
}

async fn members_and_projects_do_not_change_the_version_of_an_organization() {
    let fixture = Fixture::new().await;
    let first = fixture.get(ONE).await;
    let tag = first.header("etag").to_owned();
    let admin = fixture
        .member("ada@example.com", Level::Administrator)
        .await;
    let projects = format!("{ONE}projects/");
    let made = fixture
        .call("POST", &projects, &json!({ "name": "B" }))
        .await;
    assert_eq!(made.status, 201);
    let now = fixture.get(ONE).await;
    for field in ["member_count", "teams"] {
        assert_ne!(now.body[field], first.body[field], "{field}");
    }
    assert_eq!(now.header("etag"), tag);
    // Fields that the tag leaves out would be stale in a cache.
    assert_eq!(now.header("cache-control"), "no-store");
    let theirs = fixture.send("GET", ONE, Some(&admin)).await;
    assert_eq!((theirs.status, theirs.header("etag")), (200, &*tag));
    let renamed = r#"{"name":"New"}"#;
    for status in [200, 412] {
        let changed = with(&fixture, "PATCH", ONE, ("if-match", &tag), renamed).await;
        assert_eq!(changed.status, status, "{changed:?}");
    }
}

/// Sends concurrent changes of one version to two processes, in rounds: one of each succeeds.
async fn changed_in_rounds(
    fixture: &Fixture,
    path: &str,
    change: (&str, &str, fn(usize) -> Value),
) {
    let (method, rest, body) = change;
    let processes = [fixture, &fixture.another_process().await];
    for round in 0..20 {
        let tag = fixture.get(path).await.header("etag").to_owned();
        let calls = (0..6).map(|number| {
            let (tag, body) = (&tag, body(round * 6 + number).to_string());
            let (process, to) = (processes[number % 2], format!("{path}{rest}"));
            async move {
                let changed = with(process, method, &to, ("if-match", tag), &body).await;
                changed.status
            }
        });
        let mut statuses = join_all(calls).await;
        statuses.sort_unstable();
        let expected = [200, 412, 412, 412, 412, 412];
        assert_eq!(statuses, expected, "{method} {path}{rest}, round {round}");
    }
}

async fn only_one_of_two_processes_changes_a_version() {
    let fixture = Fixture::new().await;
    let named = |number: usize| json!({ "name": format!("Name {number}") });
    let new = json!({
        "name": "A", "interval": "hour", "destination": { "type": "NoOp" }, "paused": true,
    });
    let export = format!("{ONE}batch_exports/");
    let export = fixture.call("POST", &export, &new).await.body;
    let export = format!("{ONE}batch_exports/{}/", export["id"].as_str().unwrap());
    let role = format!("{ONE}roles/");
    let role = fixture
        .call("POST", &role, &json!({ "name": "A" }))
        .await
        .body;
    let role = format!("{ONE}roles/{}/", role["id"].as_str().unwrap());
    let labelled = |number: usize| json!({ "label": format!("Label {number}") });
    changed_in_rounds(&fixture, ONE, ("PATCH", "", named)).await;
    changed_in_rounds(&fixture, PROJECT, ("PATCH", "reset_token/", named)).await;
    changed_in_rounds(&fixture, &export, ("PATCH", "", named)).await;
    changed_in_rounds(&fixture, &role, ("PATCH", "", named)).await;
    let key = "/api/personal_api_keys/@current/";
    changed_in_rounds(&fixture, key, ("PATCH", "", labelled)).await;
}
