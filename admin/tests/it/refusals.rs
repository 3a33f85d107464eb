//! Messages of refusals for missing keys, scopes, levels and features.

use crate::Fixture;
use millrace_catalog::{Actor, Level};
use millrace_exports::set_features;
use serde_json::json;

on_both!(
    a_refusal_names_the_missing_key_scope_or_feature,
    a_refusal_names_the_required_level,
    callers_with_the_required_access_are_not_refused,
);

const ORGANIZATION: &str = "/api/organizations/@current/";
const ADMINISTRATORS: &str = "Only administrators and owners of the organization may do this.";
const OWNER: &str = "Only an owner of the organization may do this.";
/// Id that nothing has, so that the requests change nothing.
const NOBODY: &str = "01890f00-0000-7000-8000-000000000000";

/// Sends a request, by method and path below the organization; returns status, code and detail.
async fn refusal(
    fixture: &Fixture,
    key: Option<&str>,
    call: (&str, &str),
) -> (u16, String, String) {
    let (method, rest) = call;
    let path = format!("{ORGANIZATION}{rest}");
    let answer = match key {
        Some(key) => fixture.call_with(key, method, &path, &json!({})).await,
        None => fixture.send(method, &path, None).await,
    };
    let text = |field: &str| answer.body[field].as_str().unwrap_or_default().to_owned();
    (answer.status, text("code"), text("detail"))
}

async fn a_refusal_names_the_missing_key_scope_or_feature() {
    let fixture = Fixture::new().await;
    let stranger = fixture.key(&["plugin:read"]).await;
    let owner = fixture.owner_key();
    let off = ["audit_logs".to_owned()];
    let (operator, id) = (Actor::command_line(), fixture.made.organization_id);
    let taken = set_features(&fixture.catalog, &operator, id, &[], &off);
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
        assert_eq!(refusal(&fixture, key, call).await, expected, "{call:?}");
    }
}

async fn a_refusal_names_the_required_level() {
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
        assert_eq!(
            refusal(&fixture, Some(key), call).await,
            expected,
            "{call:?}"
        );
    }
}

async fn callers_with_the_required_access_are_not_refused() {
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
        let (got, ..) = refusal(&fixture, Some(key), call).await;
        assert_eq!(got, status, "{call:?}");
    }
}
