//! Access to batch exports: scopes, levels, organizations, features.

use super::{NOBODY, ORGANIZATION, PROJECT, export, new_export};
use crate::Fixture;
use crate::access;
use millrace_catalog::{Actor, Level};
use millrace_exports::set_features;
use serde_json::json;

on_both!(
    every_operation_requires_its_scope_and_organization,
    exports_of_other_organizations_are_not_found,
    members_may_write_unless_the_organization_forbids_it,
    without_the_feature_exports_can_only_be_read_and_stopped,
);

const READ: &[&str] = &["batch_export:read", "batch_export:write", "*"];
const WRITE: &[&str] = &["batch_export:write", "*"];

/// Methods and paths below the list, with their scopes. `{}` stands for an id.
const OPERATIONS: [(&str, &str, &[&str]); 19] = [
    ("GET", "", READ),
    ("POST", "", WRITE),
    ("GET", "test/", READ),
    ("GET", "{}/", READ),
    ("PATCH", "{}/", WRITE),
    ("PUT", "{}/", WRITE),
    ("DELETE", "{}/", WRITE),
    ("POST", "{}/pause/", WRITE),
    ("POST", "{}/unpause/", WRITE),
    ("POST", "{}/backfill/", WRITE),
    ("GET", "{}/logs/", READ),
    ("GET", "{}/runs/", READ),
    ("GET", "{}/runs/{}/", READ),
    ("POST", "{}/runs/{}/retry/", WRITE),
    ("POST", "{}/runs/{}/cancel/", WRITE),
    ("GET", "{}/runs/{}/logs/", READ),
    ("GET", "{}/backfills/", READ),
    ("POST", "{}/backfills/", WRITE),
    ("POST", "{}/backfills/{}/cancel/", WRITE),
];

async fn every_operation_requires_its_scope_and_organization() {
    let fixture = Fixture::new().await;
    let at = |path: &str| format!("batch_exports/{}", path.replace("{}", NOBODY));
    let operations = OPERATIONS.map(|(method, path, scopes)| (method, at(path), scopes));
    access::check_of_members(&fixture, operations).await;
}

async fn exports_of_other_organizations_are_not_found() {
    let fixture = Fixture::new().await;
    let foreign = fixture
        .call("POST", "/api/organizations/", &json!({ "name": "Theirs" }))
        .await;
    let theirs = format!(
        "/api/organizations/{}/",
        foreign.body["id"].as_str().unwrap()
    );
    let project = fixture.get(&format!("{theirs}projects/")).await.body["results"][0]["id"].clone();
    let (mine, _) = export(&fixture, ORGANIZATION).await;
    let id = mine["id"].as_str().unwrap();
    let run = json!(NOBODY);
    for place in [theirs, format!("/api/projects/{project}/")] {
        for (method, path, _) in OPERATIONS.iter().filter(|(_, path, _)| path.contains("{}")) {
            let path = path
                .replacen("{}", id, 1)
                .replace("{}", run.as_str().unwrap());
            let path = format!("{place}batch_exports/{path}");
            let answer = fixture.call(method, &path, &new_export()).await;
            assert_eq!(answer.error(), (404, "not_found", None), "{method} {path}");
        }
        let list = fixture.get(&format!("{place}batch_exports/")).await;
        assert_eq!((list.status, &list.body["count"]), (200, &json!(0)));
    }
    let stranger = fixture.user("eve@example.com").await;
    assert!(stranger > 0);
    let key = fixture.key_of("eve@example.com", &["*"]).await;
    for (method, path, _) in OPERATIONS {
        let path = format!("{PROJECT}{}", path.replace("{}", id));
        let path = path.replace("@current", &fixture.made.project_id.0.to_string());
        let answer = fixture.call_with(&key, method, &path, &new_export()).await;
        assert_eq!(answer.error(), (404, "not_found", None), "{method} {path}");
    }
}

async fn members_may_write_unless_the_organization_forbids_it() {
    let fixture = Fixture::new().await;
    let member = fixture.member("mia@example.com", Level::Member).await;
    let (_, path) = export(&fixture, ORGANIZATION).await;
    let off = json!({ "members_can_write_pipelines": false });
    fixture
        .call("PATCH", "/api/organizations/@current/", &off)
        .await;
    let id = path.trim_start_matches(ORGANIZATION).trim_end_matches('/');
    for all in [ORGANIZATION, PROJECT] {
        for (method, path, scopes) in OPERATIONS {
            let path = format!("{all}{}", path.replace("{}", id));
            let answer = fixture.call_with(&member, method, &path, &json!({})).await;
            let refused = scopes == WRITE;
            assert_eq!(answer.status == 403, refused, "{method} {path}: {answer:?}");
        }
    }
}

async fn without_the_feature_exports_can_only_be_read_and_stopped() {
    let fixture = Fixture::new().await;
    let (_, path) = export(&fixture, ORGANIZATION).await;
    let backfills = format!("{path}backfills/");
    let backfill = fixture.call("POST", &backfills, &json!({})).await;
    let backfill = format!("{backfills}{}/", backfill.body["id"].as_str().unwrap());
    let (actor, off) = (Actor::command_line(), ["data_pipelines".to_owned()]);
    let id = fixture.made.organization_id;
    let set = set_features(&fixture.catalog, &actor, id, &[], &off);
    set.await.unwrap();
    let below = |rest: &str| format!("{path}{rest}");
    for path in [ORGANIZATION, PROJECT, &path, &backfill, &below("logs/")] {
        assert_eq!(fixture.get(path).await.status, 200, "{path}");
    }
    assert_eq!(fixture.get(&path).await.body["paused"], true);
    assert_eq!(fixture.get(&backfill).await.body["status"], "Cancelled");
    let run = format!("runs/{NOBODY}/retry/");
    for (method, path) in [
        ("POST", ORGANIZATION),
        ("POST", PROJECT),
        ("PATCH", &path),
        ("PUT", &path),
        ("POST", &below("unpause/")),
        ("POST", &below("backfill/")),
        ("POST", &backfills),
        ("POST", &below(&run)),
    ] {
        let answer = fixture.call(method, path, &new_export()).await;
        let expected = (403, "payment_required", None);
        assert_eq!(answer.error(), expected, "{method} {path}");
    }
    let run = format!("runs/{NOBODY}/cancel/");
    for (method, path, status) in [
        ("POST", below("pause/"), 200),
        ("POST", format!("{backfill}cancel/"), 400),
        ("POST", below(&run), 404),
        ("DELETE", path.clone(), 204),
    ] {
        let answer = fixture.call(method, &path, &json!({})).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
}
