//! Proxy records: domains of managed reverse proxies.

use crate::Fixture;
use crate::access;
use millrace_admin::ApiConfig;
use millrace_catalog::{Level, ProxyStatus};
use millrace_organizations::ProxyRecords;
use serde_json::{Value, json};

on_both!(
    every_operation_requires_its_scope_level_and_organization,
    a_record_is_made_read_and_deleted,
    invalid_domains_are_refused_and_valid_ones_are_claimed_once,
);

const ALL: &str = "/api/organizations/@current/proxy_records/";

async fn every_operation_requires_its_scope_level_and_organization() {
    const READ: &[&str] = &[
        "proxy_record:read",
        "organization:read",
        "proxy_record:write",
    ];
    const WRITE: &[&str] = &["proxy_record:write", "organization:write"];
    const ONE: &str = "proxy_records/01890f00-0000-7000-8000-000000000000/";
    let fixture = Fixture::new().await;
    let rules = [
        ("GET", "proxy_records/", READ, Level::Member),
        ("POST", "proxy_records/", WRITE, Level::Administrator),
        ("GET", ONE, READ, Level::Member),
        ("PATCH", ONE, WRITE, Level::Administrator),
        ("PUT", ONE, WRITE, Level::Administrator),
        ("DELETE", ONE, WRITE, Level::Administrator),
    ];
    access::check(&fixture, &rules).await;
}

async fn a_record_is_made_read_and_deleted() {
    let fixture = Fixture::with(ApiConfig {
        proxy_base_name: "proxy.millrace.example".to_owned(),
        ..ApiConfig::default()
    })
    .await;
    let new = json!({ "domain": " Événements.Example.COM. ", "status": "valid", "id": 3 });
    let made = fixture.call("POST", ALL, &new).await;
    assert_eq!(made.status, 201, "{made:?}");
    let body = &made.body;
    assert_eq!(body["domain"], "xn--vnements-90ab.example.com");
    let target = body["target_cname"].as_str().unwrap();
    let (label, base) = target.split_once('.').unwrap();
    assert_eq!((label.len(), base), (20, "proxy.millrace.example"));
    assert_eq!(
        (&body["status"], &body["message"]),
        (&json!("waiting"), &Value::Null)
    );
    assert_eq!(body["created_by"]["email"], fixture.made.owner_email);
    assert_eq!(body.as_object().unwrap().len(), 8);

    let path = format!("{ALL}{}/", body["id"].as_str().unwrap());
    assert_eq!(&fixture.get(&path).await.body, body);
    let list = fixture.get(ALL).await;
    assert_eq!(
        (&list.body["count"], &list.body["results"][0]),
        (&json!(1), body)
    );
    for method in ["PATCH", "PUT"] {
        let same = json!({ "domain": "événements.example.com", "target_cname": "x" });
        let unchanged = fixture.call(method, &path, &same).await;
        assert_eq!((unchanged.status, &unchanged.body), (200, body), "{method}");
        let other = fixture
            .call(method, &path, &json!({ "domain": "b.example.com" }))
            .await;
        assert_eq!(
            other.error(),
            (400, "invalid_input", Some("domain")),
            "{method}"
        );
    }
    let log = fixture
        .get("/api/organizations/@current/activity/?scopes=ProxyRecord")
        .await;
    assert_eq!(log.body["results"][0]["activity"], "created");
    assert_eq!(log.body["results"][0]["scope"], "ProxyRecord");
    let deleted = fixture.call("DELETE", &path, &json!({})).await;
    assert_eq!(deleted.status, 204);
    assert_eq!(fixture.get(&path).await.error(), (404, "not_found", None));
    let log = fixture
        .get("/api/organizations/@current/activity/?scopes=ProxyRecord")
        .await;
    assert_eq!(log.body["results"][0]["activity"], "deleted");
}

async fn invalid_domains_are_refused_and_valid_ones_are_claimed_once() {
    let fixture = Fixture::new().await;
    let table = [
        (json!({}), "required"),
        (json!({ "domain": null }), "null"),
        (json!({ "domain": "" }), "blank"),
        (json!({ "domain": "  " }), "blank"),
        (json!({ "domain": 4 }), "invalid_input"),
        (json!({ "domain": "localhost" }), "invalid_input"),
        (json!({ "domain": "a_b.example.com" }), "invalid_input"),
        (
            json!({ "domain": "https://a.example.com" }),
            "invalid_input",
        ),
        (json!({ "domain": "a.example.com/path" }), "invalid_input"),
        (json!({ "domain": "192.0.2.1" }), "invalid_input"),
        (
            json!({ "domain": format!("{}.example.com", "a".repeat(60)) }),
            "max_length",
        ),
    ];
    for (body, code) in table {
        let answer = fixture.call("POST", ALL, &body).await;
        assert_eq!(answer.error(), (400, code, Some("domain")), "{body}");
    }
    let new = json!({ "domain": "a.example.com" });
    assert_eq!(fixture.call("POST", ALL, &new).await.status, 201);
    let twice = json!({ "domain": "A.example.com." });
    let again = fixture.call("POST", ALL, &twice).await;
    assert_eq!(again.error(), (400, "unique", Some("domain")));
    // An unverified claim does not block other organizations.
    let other = fixture
        .call("POST", "/api/organizations/", &json!({ "name": "Other" }))
        .await;
    let theirs = ALL.replace("@current", other.body["id"].as_str().unwrap());
    let made = fixture.call("POST", &theirs, &twice).await;
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.body["id"].as_str().unwrap();
    let proven = Some(ProxyStatus::Valid);
    let checked =
        ProxyRecords::new(&fixture.catalog).record_check(id.parse().unwrap(), proven, None);
    assert!(checked.await.unwrap());
    let third = fixture
        .call("POST", "/api/organizations/", &json!({ "name": "Third" }))
        .await;
    let third = ALL.replace("@current", third.body["id"].as_str().unwrap());
    let late = fixture.call("POST", &third, &new).await;
    assert_eq!(late.error(), (400, "unique", Some("domain")));
}
