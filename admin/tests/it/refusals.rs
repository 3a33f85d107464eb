//! What those are told who may not do something: each refusal in its own words.

use crate::Fixture;
use millrace_catalog::{Actor, Level};
use serde_json::json;

on_both!(
    whoever_is_refused_is_told_what_is_missing,
    below_the_level_that_is_needed_it_is_named,
    whoever_has_what_is_needed_is_not_refused,
);

const ORGANIZATION: &str = "/api/organizations/@current/";
const ADMINISTRATORS: &str = "Only administrators and owners of the organization may do this.";
const OWNER: &str = "Only an owner of the organization may do this.";
/// Nothing of this id is there, so that nothing is changed by asking.
const NOBODY: &str = "01890f00-0000-7000-8000-000000000000";

/// Calls by somebody, as method and path below the organization.
async fn told(fixture: &Fixture, key: Option<&str>, call: (&str, &str)) -> (u16, String, String) {
    let (method, rest) = call;
    let path = format!("{ORGANIZATION}{rest}");
    let answer = match key {
        Some(key) => fixture.call_with(key, method, &path, &json!({})).await,
        None => fixture.send(method, &path, None).await,
    };
    let text = |field: &str| answer.body[field].as_str().unwrap_or_default().to_owned();
    (answer.status, text("code"), text("detail"))
}

async fn whoever_is_refused_is_told_what_is_missing() {
    let fixture = Fixture::new().await;
    let stranger = fixture.key(&["plugin:read"]).await;
    let owner = fixture.owner_key();
    let off = ["audit_logs".to_owned()];
    let (operator, id) = (Actor::command_line(), fixture.made.organization_id);
    let taken = fixture
        .catalog
        .set_organization_features(&operator, id, &[], &off);
    taken.await.unwrap();
    let approve = format!("historical_migrations/{NOBODY}/approve/");
    let (denied, scope) = ("permission_denied", "This key lacks the scope");
    let table = [
        (
            None,
            ("GET", ""),
            (401, "not_authenticated"),
            "Send a personal key: Authorization: Bearer phx_….".to_owned(),
        ),
        (
            Some("phx_garbage"),
            ("GET", ""),
            (401, "authentication_failed"),
            "The personal key in the Authorization header is unknown, revoked or expired."
                .to_owned(),
        ),
        (
            Some(&*stranger),
            ("GET", ""),
            (403, denied),
            format!("{scope} organization:read."),
        ),
        (
            Some(&*stranger),
            ("DELETE", ""),
            (403, denied),
            format!("{scope} organization:write."),
        ),
        (
            Some(&*stranger),
            ("GET", "roles/"),
            (403, denied),
            format!("{scope} role:read or organization:read."),
        ),
        (
            Some(owner),
            ("POST", &*approve),
            (403, denied),
            format!("{scope} operator."),
        ),
        (
            Some(owner),
            ("GET", "activity/"),
            (403, "payment_required"),
            "The organization does not have the feature audit_logs.".to_owned(),
        ),
    ];
    for (key, call, (status, code), detail) in table {
        let expected = (status, code.to_owned(), detail);
        assert_eq!(told(&fixture, key, call).await, expected, "{call:?}");
    }
}

async fn below_the_level_that_is_needed_it_is_named() {
    let fixture = Fixture::new().await;
    let member = fixture.member("mia@example.com", Level::Member).await;
    let administrator = fixture.member("ada@example.com", Level::Administrator);
    let administrator = administrator.await;
    let closed = json!({ "members_can_write_pipelines": false });
    assert_eq!(
        fixture.call("PATCH", ORGANIZATION, &closed).await.status,
        200
    );
    let table = [
        (&member, ("PATCH", ""), ADMINISTRATORS),
        (&member, ("POST", "projects/"), ADMINISTRATORS),
        (&member, ("POST", "batch_exports/"), ADMINISTRATORS),
        (&member, ("POST", "pipeline_destinations/"), ADMINISTRATORS),
        (&member, ("DELETE", ""), OWNER),
        (&administrator, ("DELETE", ""), OWNER),
    ];
    for (key, call, detail) in table {
        let expected = (403, "permission_denied".to_owned(), detail.to_owned());
        assert_eq!(told(&fixture, Some(key), call).await, expected, "{call:?}");
    }
}

async fn whoever_has_what_is_needed_is_not_refused() {
    let fixture = Fixture::new().await;
    let member = fixture.member("mia@example.com", Level::Member).await;
    let administrator = fixture.member("ada@example.com", Level::Administrator);
    let administrator = administrator.await;
    let table = [
        (&*member, ("GET", ""), 200),
        // Refused for its body only.
        (&*member, ("POST", "batch_exports/"), 400),
        (&*administrator, ("PATCH", ""), 200),
        (fixture.owner_key(), ("DELETE", ""), 204),
    ];
    for (key, call, status) in table {
        let (got, ..) = told(&fixture, Some(key), call).await;
        assert_eq!(got, status, "{call:?}");
    }
}
