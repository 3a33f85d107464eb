//! Callers who may read or change plugins.

use super::{ORGANIZATION, all, made};
use crate::Fixture;
use crate::access;
use millrace_catalog::Level;
use millrace_organizations::PluginFamily;
use serde_json::json;

on_both!(
    every_operation_requires_its_scope_and_organization,
    members_may_write_unless_the_organization_forbids_it,
    global_plugins_need_the_operator_and_are_seen_by_all,
    plugins_access_level_limits_reading_and_writing,
);

async fn every_operation_requires_its_scope_and_organization() {
    const READ: &[&str] = &["plugin:read", "plugin:write", "*"];
    const WRITE: &[&str] = &["plugin:write", "*"];
    let below = [
        ("GET", "", READ),
        ("POST", "", WRITE),
        ("GET", "77/", READ),
        ("PATCH", "77/", WRITE),
        ("PUT", "77/", WRITE),
        ("DELETE", "77/", WRITE),
        ("GET", "77/check_for_updates/", READ),
        ("GET", "77/source/", READ),
        ("PATCH", "77/update_source/", WRITE),
        ("POST", "77/upgrade/", WRITE),
        ("GET", "activity/", READ),
        ("GET", "exports_unsubscribe_configs/", READ),
        ("GET", "repository/", READ),
        ("GET", "unused/", READ),
    ];
    for family in PluginFamily::ALL {
        let fixture = Fixture::new().await;
        let at = |path: &str| format!("{}/{path}", family.segment());
        let operations = below.map(|(method, path, scopes)| (method, at(path), scopes));
        access::check_of_members(&fixture, operations).await;
    }
}

async fn members_may_write_unless_the_organization_forbids_it() {
    let fixture = Fixture::new().await;
    let member = fixture.member("mia@example.com", Level::Member).await;
    let administrator = fixture
        .member("ada@example.com", Level::Administrator)
        .await;
    let off = json!({ "members_can_write_pipelines": false });
    let path = format!("{ORGANIZATION}/");
    assert_eq!(fixture.call("PATCH", &path, &off).await.status, 200);
    for family in PluginFamily::ALL {
        let path = all(family);
        let new = json!({ "plugin_type": "source" });
        let refused = fixture.call_with(&member, "POST", &path, &new).await;
        assert_eq!(refused.error(), (403, "permission_denied", None));
        let made = fixture.call_with(&administrator, "POST", &path, &new).await;
        assert_eq!(made.status, 201);
        let seen = fixture.send("GET", &path, Some(&member)).await;
        assert_eq!((seen.status, &seen.body["count"]), (200, &json!(1)));
        for (method, rest) in [
            ("PATCH", ""),
            ("DELETE", ""),
            ("PATCH", "update_source/"),
            ("POST", "upgrade/"),
        ] {
            let path = format!("{path}{}/{rest}", made.body["id"]);
            let refused = fixture.call_with(&member, method, &path, &json!({})).await;
            assert_eq!(
                refused.error(),
                (403, "permission_denied", None),
                "{method} {rest}"
            );
        }
        let path = format!("{path}{}/", made.body["id"]);
        assert_eq!(fixture.call("DELETE", &path, &json!({})).await.status, 204);
    }
}

async fn global_plugins_need_the_operator_and_are_seen_by_all() {
    let fixture = Fixture::new().await;
    let operator = fixture.key(&["*", "operator"]).await;
    let (_, path) = made(
        &fixture,
        PluginFamily::Plugins,
        json!({ "is_global": false }),
    )
    .await;
    let global = json!({ "is_global": true });
    for (method, path) in [
        ("POST", all(PluginFamily::Plugins)),
        ("PATCH", path.clone()),
    ] {
        let refused = fixture.call(method, &path, &global).await;
        assert_eq!(
            refused.error(),
            (403, "permission_denied", None),
            "{method}"
        );
    }
    let made = fixture.call_with(&operator, "PATCH", &path, &global).await;
    assert_eq!((made.status, &made.body["is_global"]), (200, &json!(true)));
    let unchanged = fixture.call("PATCH", &path, &json!({ "name": "a" })).await;
    assert_eq!(unchanged.status, 403, "it is the operator's now");
    let deleted = fixture
        .call_with(&operator, "DELETE", &path, &json!({}))
        .await;
    assert_eq!(deleted.error(), (400, "invalid_input", None));
    let other = fixture
        .call("POST", "/api/organizations/", &json!({ "name": "Other" }))
        .await;
    let theirs = path.replace("@current", other.body["id"].as_str().unwrap());
    assert_eq!(fixture.get(&theirs).await.body["id"], made.body["id"]);
    let refused = fixture
        .call_with(&operator, "PATCH", &theirs, &json!({ "name": "b" }))
        .await;
    assert_eq!(refused.error(), (403, "permission_denied", None));
}

async fn plugins_access_level_limits_reading_and_writing() {
    let fixture = Fixture::new().await;
    let (_, path) = made(&fixture, PluginFamily::Plugins, json!({})).await;
    for (level, read, write) in [(0, 403, 403), (3, 200, 403), (6, 200, 200)] {
        fixture
            .execute(&format!(
                "UPDATE organizations SET plugins_access_level = {level}"
            ))
            .await;
        for rest in ["", "source/", "check_for_updates/"] {
            let answer = fixture.get(&format!("{path}{rest}")).await;
            assert_eq!(answer.status, read, "{level} {rest}");
        }
        for rest in [
            "",
            "activity/",
            "repository/",
            "unused/",
            "exports_unsubscribe_configs/",
        ] {
            let answer = fixture
                .get(&format!("{}{rest}", all(PluginFamily::Plugins)))
                .await;
            assert_eq!(answer.status, read, "{level} {rest}");
        }
        for (method, rest) in [
            ("PATCH", ""),
            ("PATCH", "update_source/"),
            ("POST", "upgrade/"),
        ] {
            let answer = fixture
                .call(method, &format!("{path}{rest}"), &json!({}))
                .await;
            assert_eq!(answer.status, write, "{level} {method} {rest}");
            if write == 403 {
                assert_eq!(answer.error(), (403, "payment_required", None));
            }
        }
    }
}
