//! Versions of resources: `ETag`, `If-None-Match`, `If-Match`.

use crate::Fixture;
use crate::fixture::Answer;
use serde_json::json;

on_both!(
    what_is_known_is_not_sent_again,
    a_change_of_another_version_is_refused,
    what_is_posted_to_a_list_depends_on_no_version,
);
on_both!(threads: of_many_changes_of_one_version_one_is_made);

const ONE: &str = "/api/organizations/@current/";
const RESET: &str = "/api/organizations/@current/projects/@current/reset_token/";
const PROJECT: &str = "/api/organizations/@current/projects/@current/";

async fn with(
    fixture: &Fixture,
    method: &str,
    path: &str,
    header: (&str, &str),
    body: &str,
) -> Answer {
    let bearer = format!("Bearer {}", fixture.owner_key());
    let headers = [("authorization", bearer.as_str()), header];
    fixture
        .request(method, path, &headers, body.as_bytes())
        .await
}

async fn what_is_known_is_not_sent_again() {
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

async fn what_is_posted_to_a_list_depends_on_no_version() {
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

async fn of_many_changes_of_one_version_one_is_made() {
    let fixture = std::sync::Arc::new(Fixture::new().await);
    let tag = fixture.get(ONE).await.header("etag").to_owned();
    let by_id = format!("/api/organizations/{}/", fixture.made.organization_id);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..16 {
        let (fixture, tag) = (fixture.clone(), tag.clone());
        // Two names of one thing.
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
