//! Organizations: created, read, changed, deleted, and pages of lists.

use crate::Fixture;
use millrace_catalog::{Actor, Level};
use millrace_organizations::{Organizations, Users};
use serde_json::{Value, json};

on_both!(
    organizations_are_listed_in_the_envelope,
    one_organization_is_found_by_id_and_as_current,
    unknown_foreign_and_malformed_ids_are_answered_alike,
    pages_follow_one_another,
    an_unavailable_catalog_is_answered_503_without_details,
    an_organization_is_made_changed_and_deleted,
    levels_limit_changes_of_organizations_and_projects,
    a_key_limited_to_organizations_cannot_create_one,
);

async fn organizations_are_listed_in_the_envelope() {
    let fixture = Fixture::new().await;
    for path in ["/api/organizations/", "/api/organizations"] {
        let answer = fixture.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.body["count"], 1);
        assert_eq!(
            (&answer.body["next"], &answer.body["previous"]),
            (&Value::Null, &Value::Null)
        );
        let organization = &answer.body["results"][0];
        assert_eq!(organization["id"], fixture.made.organization_id.to_string());
        let fixed = json!({
            "name": "Default organization", "slug": "default-organization",
            "membership_level": 15, "plugins_access_level": 9, "member_count": "1",
            "is_member_join_email_enabled": true, "customer_id": null, "enforce_2fa": null,
            "members_can_write_pipelines": true,
            "metadata": "{\"instance_tag\":null}",
        });
        for (field, value) in fixed.as_object().unwrap() {
            assert_eq!(&organization[field], value, "{field}");
        }
        assert!(organization["created_at"].as_str().unwrap().ends_with('Z'));
        let project = &organization["teams"][0];
        assert_eq!(project["id"], fixture.made.project_id.0);
        assert_eq!(project["api_token"], fixture.made.project_api_key);
    }
}

async fn one_organization_is_found_by_id_and_as_current() {
    let fixture = Fixture::new().await;
    let id = fixture.made.organization_id;
    for path in [
        format!("/api/organizations/{id}/"),
        "/api/organizations/@current".to_owned(),
    ] {
        let answer = fixture.get(&path).await;
        assert_eq!(
            (answer.status, &answer.body["id"]),
            (200, &json!(id.to_string())),
            "{path}"
        );
    }
}

async fn unknown_foreign_and_malformed_ids_are_answered_alike() {
    let fixture = Fixture::new().await;
    let foreign = Organizations::new(&fixture.catalog)
        .create(&Actor::system(), "Theirs", None)
        .await
        .unwrap()
        .id;
    let paths = [
        format!("/api/organizations/{foreign}/"),
        format!("/api/organizations/{foreign}/projects/"),
        "/api/organizations/0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6071/".to_owned(),
        "/api/organizations/not-a-uuid/".to_owned(),
        "/api/organizations/@current/projects/4711/".to_owned(),
        "/api/organizations/@current/projects/x/".to_owned(),
        "/api/nothing/".to_owned(),
        "/api/organizations//".to_owned(),
    ];
    for path in paths {
        let answer = fixture.get(&path).await;
        assert_eq!(answer.status, 404, "{path}");
        let body = &answer.body;
        assert_eq!(
            (&body["type"], &body["code"]),
            (&json!("invalid_request"), &json!("not_found"))
        );
        assert!(
            body["detail"].is_string() && body["attr"].is_null(),
            "{path}: {body}"
        );
    }
}

async fn pages_follow_one_another() {
    let fixture = Fixture::new().await;
    let owner = Users::new(&fixture.catalog)
        .by_email("owner@localhost")
        .await
        .unwrap()
        .unwrap();
    for name in ["Two", "Three", "Four", "Five"] {
        Organizations::new(&fixture.catalog)
            .create(&Actor::system(), name, Some(owner.id))
            .await
            .unwrap();
    }
    let mut path = "/api/organizations/?limit=2&keep=this".to_owned();
    let mut names = Vec::new();
    let mut previous = Vec::new();
    loop {
        let page = fixture.get(&path).await;
        assert_eq!(page.body["count"], 5);
        for organization in page.body["results"].as_array().unwrap() {
            names.push(organization["name"].as_str().unwrap().to_owned());
        }
        previous.push(page.body["previous"].clone());
        let Some(next) = page.body["next"].as_str() else {
            break;
        };
        path = next
            .strip_prefix("http://admin.example:8010")
            .unwrap()
            .to_owned();
    }
    assert_eq!(
        names,
        ["Default organization", "Two", "Three", "Four", "Five"]
    );
    let base = "http://admin.example:8010/api/organizations/?limit=2";
    let expected = [
        json!(null),
        json!(format!("{base}&keep=this")),
        json!(format!("{base}&offset=2&keep=this")),
    ];
    assert_eq!(previous, expected);
    // Behind the end, the page before is the last one.
    let table = [
        (5, json!(format!("{base}&offset=3"))),
        (6, json!(format!("{base}&offset=3"))),
        (1_000_000, json!(format!("{base}&offset=3"))),
    ];
    for (offset, expected) in table {
        let path = format!("/api/organizations/?limit=2&offset={offset}");
        let page = fixture.get(&path).await.body;
        assert_eq!(page["previous"], expected, "{offset}");
        assert_eq!(page["results"], json!([]), "{offset}");
    }
}

async fn an_unavailable_catalog_is_answered_503_without_details() {
    let fixture = Fixture::new().await;
    fixture.catalog.close().await.unwrap();
    let answer = fixture.get("/api/organizations/").await;
    assert_eq!(
        (answer.status, &answer.body["type"]),
        (503, &json!("server_error"))
    );
    assert_eq!(answer.headers["retry-after"], "5");
    assert!(
        !answer.body.to_string().contains("catalog"),
        "{}",
        answer.body
    );
}

async fn an_organization_is_made_changed_and_deleted() {
    let fixture = Fixture::new().await;
    let made = fixture
        .call(
            "POST",
            "/api/organizations/",
            &json!({ "name": " Acme ", "enforce_2fa": true }),
        )
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let expected = json!({
        "name": "Acme", "slug": "acme", "membership_level": 15, "enforce_2fa": true,
        "is_member_join_email_enabled": true, "member_count": "1",
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&made.body[field], value, "{field}");
    }
    assert_eq!(made.body["teams"][0]["name"], "Default project");
    let path = format!("/api/organizations/{}/", made.body["id"].as_str().unwrap());
    assert_eq!(fixture.get(&path).await.body, made.body);

    let change = json!({ "name": "Apex", "enforce_2fa": null, "slug": "other", "id": 1 });
    let changed = fixture.call("PATCH", &path, &change).await;
    assert_eq!(changed.status, 200);
    let (name, slug) = (&changed.body["name"], &changed.body["slug"]);
    assert_eq!((name, slug), (&json!("Apex"), &json!("acme")));
    assert_eq!(changed.body["enforce_2fa"], json!(null));
    let put = fixture
        .call("PUT", &path, &json!({ "name": "Atlas" }))
        .await;
    assert_eq!((put.status, &put.body["name"]), (200, &json!("Atlas")));

    let log = fixture.get(&format!("{path}activity/")).await;
    let entries = log.body["results"].as_array().unwrap();
    let of_organization = entries
        .iter()
        .filter(|entry| entry["scope"] == "Organization");
    let activities: Vec<_> = of_organization
        .map(|entry| entry["activity"].clone())
        .collect();
    assert_eq!(activities, ["updated", "updated", "created"]);
    assert_eq!(entries[0]["user"]["email"], fixture.made.owner_email);
    assert_eq!(entries[0]["detail"]["changes"][0]["after"], "Atlas");

    assert_eq!(fixture.call("DELETE", &path, &json!({})).await.status, 204);
    assert_eq!(fixture.get(&path).await.status, 404);
}

async fn levels_limit_changes_of_organizations_and_projects() {
    let fixture = Fixture::new().await;
    let member = fixture.member("member@example.com", Level::Member).await;
    let administrator = fixture
        .member("admin@example.com", Level::Administrator)
        .await;
    let name = json!({ "name": "New" });
    let one = "/api/organizations/@current/";
    let projects = "/api/organizations/@current/projects/";
    let table = [
        ("GET", one, 200, 200),
        ("PATCH", one, 403, 200),
        ("DELETE", one, 403, 403),
        ("GET", projects, 200, 200),
        ("POST", projects, 403, 201),
        (
            "PATCH",
            "/api/organizations/@current/projects/@current/",
            403,
            200,
        ),
        (
            "PATCH",
            "/api/organizations/@current/projects/@current/reset_token/",
            403,
            200,
        ),
        (
            "DELETE",
            "/api/organizations/@current/projects/@current/",
            403,
            204,
        ),
        ("GET", "/api/organizations/@current/activity/", 200, 200),
    ];
    for (method, path, of_member, of_administrator) in table {
        for (key, status) in [(&member, of_member), (&administrator, of_administrator)] {
            let answer = fixture.call_with(key, method, path, &name).await;
            assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        }
    }
}

async fn a_key_limited_to_organizations_cannot_create_one() {
    let fixture = Fixture::new().await;
    let only = json!([fixture.made.organization_id]);
    let new = json!({ "label": "One", "scopes": ["*"], "scoped_organizations": only });
    let made = fixture.call("POST", "/api/personal_api_keys/", &new).await;
    let key = made.body["value"].as_str().unwrap();
    let new = json!({ "name": "A" });
    let answer = fixture.call_with(key, "POST", "/api/organizations/", &new);
    assert_eq!(answer.await.error(), (403, "permission_denied", None));
}
