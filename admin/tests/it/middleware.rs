//! Rules for every operation, and the order of the checks.

use crate::Fixture;
use millrace_admin::ApiConfig;
use millrace_organizations::PersonalKeys;
use serde_json::{Value, json};

on_both!(
    checks_run_in_the_order_route_key_scope_method_body,
    allow_lists_the_methods_of_the_path,
    paths_work_with_the_slash_at_the_end_and_without,
    requests_keep_their_ids,
    errors_are_problem_json_if_the_client_accepts_it,
    page_links_have_the_address_that_the_client_used,
);

const ALL: &str = "/api/organizations/";
const ONE: &str = "/api/organizations/@current/";
const PROJECT: &str = "/api/organizations/@current/projects/@current/";
const NOWHERE: &str = "/api/organizations/0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6071/";

async fn checks_run_in_the_order_route_key_scope_method_body() {
    let fixture = Fixture::new().await;
    let plugin_only = fixture.key(&["plugin:write"]).await;
    let reader = fixture.key(&["organization:read"]).await;
    let writer = fixture.key(&["organization:write"]).await;
    let revoked = fixture.key(&["*"]).await;
    let by = millrace_catalog::Actor::system();
    PersonalKeys::new(&fixture.catalog)
        .revoke(&by, &revoked)
        .await
        .unwrap();
    let project_key = fixture.made.project_api_key.clone();
    let bad = json!({ "name": null });
    let table = [
        ("DELETE", "/api/nothing/", None, 404, "not_found"),
        ("DELETE", ALL, None, 401, "not_authenticated"),
        (
            "DELETE",
            ALL,
            Some("phx_garbage"),
            401,
            "authentication_failed",
        ),
        ("GET", ALL, Some(&*revoked), 401, "authentication_failed"),
        (
            "GET",
            ALL,
            Some(&*project_key),
            401,
            "authentication_failed",
        ),
        ("DELETE", ALL, Some(&*plugin_only), 403, "permission_denied"),
        ("POST", ALL, Some(&*reader), 403, "permission_denied"),
        ("PATCH", NOWHERE, Some(&*reader), 403, "permission_denied"),
        ("PATCH", NOWHERE, Some(&*writer), 404, "not_found"),
        ("POST", NOWHERE, Some(&*writer), 404, "not_found"),
        ("DELETE", ALL, Some(&*reader), 405, "method_not_allowed"),
        ("OPTIONS", ONE, Some(&*reader), 405, "method_not_allowed"),
        ("POST", PROJECT, Some(&*reader), 405, "method_not_allowed"),
        ("POST", ALL, Some(&*writer), 400, "null"),
        ("PUT", ALL, Some(&*writer), 405, "method_not_allowed"),
        ("PUT", ONE, Some(&*writer), 400, "null"),
        ("PATCH", PROJECT, Some(&*writer), 400, "null"),
    ];
    for (method, path, key, status, code) in table {
        let answer = match key {
            Some(key) => fixture.call_with(key, method, path, &bad).await,
            None => fixture.send(method, path, None).await,
        };
        let (got_status, got_code, _) = answer.error();
        assert_eq!((got_status, got_code), (status, code), "{method} {path}");
        assert_eq!(
            answer.headers.contains_key("allow"),
            status == 405,
            "{method} {path}"
        );
        assert_eq!(
            answer.headers.contains_key("www-authenticate"),
            status == 401
        );
    }
}

async fn allow_lists_the_methods_of_the_path() {
    let fixture = Fixture::new().await;
    let table = [
        (ALL, "GET, HEAD, POST"),
        (ONE, "GET, HEAD, PATCH, PUT, DELETE"),
        ("/api/organizations/@current/activity/", "GET, HEAD"),
        ("/api/personal_api_keys/@current/roll/", "POST"),
        ("/api/schema/", "GET, HEAD"),
    ];
    for (path, allow) in table {
        let answer = fixture.send("TRACE", path, Some(fixture.owner_key())).await;
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, allow),
            "{path}"
        );
    }
}

async fn paths_work_with_the_slash_at_the_end_and_without() {
    let fixture = Fixture::new().await;
    let id = fixture.made.organization_id;
    let table = [
        ("/api/organizations".to_owned(), 200),
        (format!("/api/organizations/{id}"), 200),
        (format!("/api/organizations/{id}/"), 200),
        (
            format!("/api/organizations/{}/", id.to_string().to_uppercase()),
            200,
        ),
        (format!("/api/organizations/{}/", id.simple()), 404),
        ("/api/organizations/%40current/".to_owned(), 200),
        ("/api/organizations/@current/projects".to_owned(), 200),
        (format!("/api/organizations/{id}//"), 404),
        ("/api//organizations/".to_owned(), 404),
        ("/api/organizations/@current%2Fprojects/".to_owned(), 404),
        ("/api/organizations/%ff/".to_owned(), 404),
        ("/api/organizations/%00/".to_owned(), 404),
        ("/api/".to_owned(), 200),
        ("/api//".to_owned(), 404),
    ];
    for (path, status) in table {
        for method in ["GET", "HEAD"] {
            let answer = fixture.send(method, &path, Some(fixture.owner_key())).await;
            assert_eq!(answer.status, status, "{method} {path}");
        }
    }
}

async fn requests_keep_their_ids() {
    let fixture = Fixture::new().await;
    for (path, status) in [(ALL, 401), ("/api/nothing/", 404)] {
        let named = fixture
            .request("GET", path, &[("x-request-id", "mine-1")], b"")
            .await;
        assert_eq!(
            (named.status, named.header("x-request-id")),
            (status, "mine-1")
        );
        let other = fixture.request("GET", path, &[], b"").await;
        assert!(uuid::Uuid::parse_str(other.header("x-request-id")).is_ok());
    }
}

async fn errors_are_problem_json_if_the_client_accepts_it() {
    let fixture = Fixture::new().await;
    let table = [
        ("application/problem+json", true),
        ("application/json, application/problem+json;q=0.5", true),
        ("application/problem+json;q=0", false),
        ("application/json", false),
        ("*/*", false),
    ];
    for (accept, is_problem) in table {
        let answer = fixture
            .request("GET", ALL, &[("accept", accept)], b"")
            .await;
        let content_type = if is_problem {
            "application/problem+json"
        } else {
            "application/json"
        };
        assert_eq!(answer.header("content-type"), content_type, "{accept}");
        let kind = if is_problem {
            "urn:millrace:error:not_authenticated"
        } else {
            "authentication_error"
        };
        assert_eq!(answer.body["type"], kind, "{accept}");
        assert_eq!(answer.body["code"], "not_authenticated");
        let status = if is_problem { json!(401) } else { Value::Null };
        assert_eq!(answer.body["status"], status);
    }
}

async fn page_links_have_the_address_that_the_client_used() {
    let proxy = || ApiConfig {
        // Requests of tests have no socket and count as local.
        trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
        ..ApiConfig::default()
    };
    let configured = ApiConfig {
        public_url: Some("https://api.example".to_owned()),
        ..proxy()
    };
    let forwarded = [
        ("x-forwarded-host", "front.example"),
        ("x-forwarded-proto", "https"),
    ];
    let table = [
        (
            ApiConfig::default(),
            &forwarded[..],
            "http://admin.example:8010",
        ),
        (proxy(), &forwarded[..], "https://front.example"),
        (proxy(), &[], "http://admin.example:8010"),
        (configured, &forwarded[..], "https://api.example"),
    ];
    for (config, more, expected) in table {
        let fixture = Fixture::with(config).await;
        fixture.call("POST", ALL, &json!({ "name": "Two" })).await;
        let bearer = format!("Bearer {}", fixture.owner_key());
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(more);
        let answer = fixture
            .request("GET", "/api/organizations/?limit=1", &headers, b"")
            .await;
        let next = format!("{expected}/api/organizations/?limit=1&offset=1");
        assert_eq!(answer.body["next"], next);
    }
}
