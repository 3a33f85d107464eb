//! Organizations and their projects, and the rules that hold for every endpoint.

use crate::Fixture;
use millrace_catalog::Actor;
use serde_json::{Value, json};

#[tokio::test]
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
            "available_product_features": [], "members_can_write_pipelines": true,
            "metadata": "{\"instance_tag\":null}",
        });
        for (field, value) in fixed.as_object().unwrap() {
            assert_eq!(&organization[field], value, "{field}");
        }
        assert!(organization["created_at"].as_str().unwrap().ends_with('Z'));
        let team = &organization["teams"][0];
        assert_eq!(team["id"], fixture.made.team_id.0);
        assert_eq!(team["api_token"], fixture.made.project_api_key);
    }
}

#[tokio::test]
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

#[tokio::test]
async fn projects_are_found_by_id_and_as_current() {
    let fixture = Fixture::new().await;
    let team = fixture.made.team_id;
    let list = fixture.get("/api/organizations/@current/projects/").await;
    assert_eq!((list.status, &list.body["count"]), (200, &json!(1)));
    for id in [team.to_string(), "@current".to_owned()] {
        let one = fixture
            .get(&format!("/api/organizations/@current/projects/{id}/"))
            .await;
        assert_eq!(one.status, 200, "{id}");
        assert_eq!(one.body["api_token"], fixture.made.project_api_key);
        assert_eq!(one.body["anonymize_ips"], false);
        assert_eq!(one.body["timezone"], "UTC");
    }
}

#[tokio::test]
async fn unknown_foreign_and_malformed_have_one_answer() {
    let fixture = Fixture::new().await;
    let foreign = fixture
        .catalog
        .create_organization(&Actor::system(), "Theirs", None)
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
        "/".to_owned(),
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

#[tokio::test]
async fn the_order_is_route_authentication_scope_method() {
    let fixture = Fixture::new().await;
    let plugin_only = fixture.key(&["plugin:write"]).await;
    let reader = fixture.key(&["organization:read"]).await;
    let revoked = fixture.key(&["*"]).await;
    fixture
        .catalog
        .revoke_personal_key(&Actor::system(), &revoked)
        .await
        .unwrap();
    let project_key = fixture.made.project_api_key.clone();
    let here = "/api/organizations/";
    let table = [
        ("DELETE", "/api/nothing/", None, 404, "not_found"),
        ("DELETE", here, None, 401, "not_authenticated"),
        (
            "DELETE",
            here,
            Some("phx_garbage"),
            401,
            "authentication_failed",
        ),
        ("GET", here, Some(&*revoked), 401, "authentication_failed"),
        (
            "GET",
            here,
            Some(&*project_key),
            401,
            "authentication_failed",
        ),
        (
            "DELETE",
            here,
            Some(&*plugin_only),
            403,
            "permission_denied",
        ),
        ("DELETE", here, Some(&*reader), 405, "method_not_allowed"),
        (
            "POST",
            "/api/organizations/@current/projects/",
            Some(&*reader),
            405,
            "method_not_allowed",
        ),
    ];
    for (method, path, key, status, code) in table {
        let answer = fixture.send(method, path, key).await;
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (status, &json!(code)),
            "{method} {path}"
        );
        let allow = answer.headers.get("allow").is_some();
        assert_eq!(allow, status == 405, "{method} {path}");
        assert_eq!(
            answer.headers.contains_key("www-authenticate"),
            status == 401
        );
    }
    assert_eq!(fixture.send("GET", here, Some(&reader)).await.status, 200);
    assert_eq!(fixture.send("HEAD", here, Some(&reader)).await.status, 200);
}

#[tokio::test]
async fn pages_follow_one_another() {
    let fixture = Fixture::new().await;
    let owner = fixture
        .catalog
        .user_by_email("owner@localhost")
        .await
        .unwrap()
        .unwrap();
    for name in ["Two", "Three", "Four", "Five"] {
        fixture
            .catalog
            .create_organization(&Actor::system(), name, Some(owner.id))
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
}

#[tokio::test]
async fn a_catalog_that_is_gone_is_503_without_details() {
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
