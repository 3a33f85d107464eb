//! Projects: created, read, changed, deleted.

use crate::Fixture;
use millrace_catalog::{Actor, FEATURES};
use millrace_exports::set_features;
use serde_json::json;

on_both!(
    projects_are_found_by_id_and_as_current,
    project_ids_with_signs_or_leading_zeros_are_not_found,
    a_project_is_made_changed_and_deleted,
    a_project_is_found_in_its_own_organization_only,
    without_the_feature_there_is_one_project,
);

async fn projects_are_found_by_id_and_as_current() {
    let fixture = Fixture::new().await;
    let project_id = fixture.made.project_id;
    let list = fixture.get("/api/organizations/@current/projects/").await;
    assert_eq!((list.status, &list.body["count"]), (200, &json!(1)));
    for id in [project_id.to_string(), "@current".to_owned()] {
        let one = fixture
            .get(&format!("/api/organizations/@current/projects/{id}/"))
            .await;
        assert_eq!(one.status, 200, "{id}");
        assert_eq!(one.body["api_token"], fixture.made.project_api_key);
        assert_eq!(one.body["anonymize_ips"], false);
        assert_eq!(one.body["timezone"], "UTC");
    }
}

async fn project_ids_with_signs_or_leading_zeros_are_not_found() {
    let fixture = Fixture::new().await;
    let project_id = fixture.made.project_id;
    let addresses = [
        (format!("{project_id}"), 200),
        (format!("0{project_id}"), 404),
        (format!("00{project_id}"), 404),
        (format!("+{project_id}"), 404),
        (format!("%2B{project_id}"), 404),
        (format!("%20{project_id}"), 404),
        (format!("{project_id}.0"), 404),
    ];
    for (id, status) in addresses {
        let path = format!("/api/organizations/@current/projects/{id}/");
        assert_eq!(fixture.get(&path).await.status, status, "{id}");
    }
}

async fn a_project_is_made_changed_and_deleted() {
    let fixture = Fixture::new().await;
    let all = "/api/organizations/@current/projects/";
    let new = json!({ "name": "Web", "timezone": "europe/berlin", "anonymize_ips": true });
    let made = fixture.call("POST", all, &new).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.body["timezone"], "Europe/Berlin");
    let path = format!("{all}{}/", made.body["id"]);
    assert_eq!(fixture.get(&path).await.body, made.body);

    let changed = fixture
        .call("PATCH", &path, &json!({ "anonymize_ips": false }))
        .await;
    let (anonymized, name) = (&changed.body["anonymize_ips"], &changed.body["name"]);
    assert_eq!((anonymized, name), (&json!(false), &json!("Web")));
    let reset = fixture
        .call("PATCH", &format!("{path}reset_token/"), &json!({}))
        .await;
    assert_eq!(reset.status, 200);
    assert_ne!(reset.body["api_token"], made.body["api_token"]);
    let put = fixture
        .call("PUT", &format!("{path}reset_token/"), &json!({}))
        .await;
    assert_eq!((put.status, put.header("allow")), (405, "PATCH"));
    let demo = fixture
        .get(&format!("{path}is_generating_demo_data/"))
        .await;
    assert_eq!(demo.body, json!({ "is_generating_demo_data": false }));

    let log = fixture.get(&format!("{path}activity/")).await;
    assert_eq!((log.status, &log.body["count"]), (200, &json!(3)));
    assert_eq!(log.body["results"][2]["activity"], "created");
    let searched = fixture.get(&format!("{all}?search=we")).await;
    assert_eq!(searched.body["count"], 1);

    assert_eq!(fixture.call("DELETE", &path, &json!({})).await.status, 204);
    assert_eq!(fixture.get(&path).await.status, 404);
}

async fn a_project_is_found_in_its_own_organization_only() {
    let fixture = Fixture::new().await;
    let made = fixture
        .call("POST", "/api/organizations/", &json!({ "name": "Other" }))
        .await;
    let other = made.body["id"].as_str().unwrap().to_owned();
    let project_id = fixture.made.project_id;
    for (method, path) in [
        ("GET", ""),
        ("PATCH", ""),
        ("PATCH", "reset_token/"),
        ("DELETE", ""),
    ] {
        let path = format!("/api/organizations/{other}/projects/{project_id}/{path}");
        let answer = fixture.call(method, &path, &json!({})).await;
        assert_eq!(answer.error(), (404, "not_found", None), "{method} {path}");
    }
}

async fn without_the_feature_there_is_one_project() {
    let fixture = Fixture::new().await;
    let off = ["organizations_projects".to_owned()];
    let id = fixture.made.organization_id;
    let actor = Actor::command_line();
    set_features(&fixture.catalog, &actor, id, &[], &off)
        .await
        .unwrap();
    let all = "/api/organizations/@current/projects/";
    let refused = fixture.call("POST", all, &json!({ "name": "Two" })).await;
    assert_eq!(refused.error(), (403, "payment_required", None));
    assert_eq!(
        fixture.get("/api/organizations/@current/").await.body["available_product_features"]
            .as_array()
            .unwrap()
            .len(),
        FEATURES.len() - 1
    );
}
