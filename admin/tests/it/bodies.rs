//! Refusals of invalid bodies, by the code and field of the first error.

use crate::Fixture;
use millrace_catalog::testing::nested_markers;
use serde_json::{Value, json};

on_both!(
    invalid_texts_are_refused,
    the_first_wrong_field_is_named,
    invalid_lists_and_times_are_refused,
    bodies_that_are_not_json_or_too_long_are_refused,
    read_only_and_unknown_fields_are_ignored,
    a_list_that_is_too_long_is_refused_before_its_items,
    bodies_that_overflow_the_stack_of_other_readers_are_refused,
    bodies_of_too_many_values_are_refused,
);

const ORGANIZATIONS: &str = "/api/organizations/";
const ORGANIZATION: &str = "/api/organizations/@current/";
const KEYS: &str = "/api/personal_api_keys/";
const PROJECTS: &str = "/api/organizations/@current/projects/";

/// Method, path and body of a request; code and field of its refusal.
type Case = (
    &'static str,
    &'static str,
    Value,
    &'static str,
    &'static str,
);

async fn assert_refused(table: impl IntoIterator<Item = Case>) {
    let fixture = Fixture::new().await;
    for (method, path, body, code, attr) in table {
        let answer = fixture.call(method, path, &body).await;
        let attr = (!attr.is_empty()).then_some(attr);
        assert_eq!(answer.error(), (400, code, attr), "{method} {path} {body}");
        assert_eq!(answer.body["type"], "validation_error");
        assert!(answer.body["detail"].is_string());
    }
}

async fn invalid_texts_are_refused() {
    let table = [
        (json!({}), "required"),
        (json!({ "name": null }), "null"),
        (json!({ "name": "" }), "blank"),
        (json!({ "name": " \t" }), "blank"),
        (json!({ "name": 5 }), "invalid_input"),
        (json!({ "name": "x".repeat(65) }), "max_length"),
        (json!({ "name": "a\u{0}b" }), "invalid_input"),
    ];
    let posts = |(body, code)| ("POST", ORGANIZATIONS, body, code, "name");
    assert_refused(table.map(posts)).await;
}

async fn the_first_wrong_field_is_named() {
    let zone = json!({ "name": "A", "timezone": "Mars/Base" });
    let (yes, null) = (json!({ "enforce_2fa": "yes" }), json!({ "name": null }));
    let unnamed = json!({ "enforce_2fa": true });
    assert_refused([
        ("POST", ORGANIZATIONS, json!([]), "invalid_input", ""),
        ("POST", ORGANIZATIONS, json!(null), "null", ""),
        ("PATCH", ORGANIZATION, null, "null", "name"),
        ("PATCH", ORGANIZATION, yes, "invalid_input", "enforce_2fa"),
        ("PUT", ORGANIZATION, unnamed, "required", "name"),
        ("POST", PROJECTS, zone, "invalid_input", "timezone"),
    ])
    .await;
}

async fn invalid_lists_and_times_are_refused() {
    let naive = json!("2099-01-01T00:00:00");
    let past = json!("2001-01-01T00:00:00Z");
    let table = [
        ("scopes", json!("*"), "not_a_list", "scopes"),
        ("scopes", json!([1]), "invalid_input", "scopes__0"),
        ("scopes", json!([]), "invalid_input", "scopes"),
        ("scopes", json!(["tea:read"]), "invalid_input", "scopes"),
        ("expires_at", naive, "invalid_input", "expires_at"),
        ("expires_at", past, "invalid_input", "expires_at"),
        (
            "scoped_organizations",
            json!(["x"]),
            "invalid_input",
            "scoped_organizations__0",
        ),
        (
            "scoped_organizations",
            json!("x"),
            "not_a_list",
            "scoped_organizations",
        ),
    ];
    let posts = |(field, value, code, attr)| {
        let mut key = json!({ "label": "A", "scopes": ["*"] });
        key[field] = value;
        ("POST", KEYS, key, code, attr)
    };
    assert_refused(table.map(posts)).await;
}

async fn bodies_that_are_not_json_or_too_long_are_refused() {
    let fixture = Fixture::new().await;
    let bearer = format!("Bearer {}", fixture.owner_key());
    let good = json!({ "name": "A" }).to_string();
    let megabyte = format!(
        r#"{{"name":"B","more":"{}"}}"#,
        "x".repeat(1024 * 1024 - 22)
    );
    let json = "application/json";
    let deep = "[".repeat(100_000);
    let table = [
        (json, good.clone(), 201, ""),
        ("Application/JSON; charset=utf-8", good.clone(), 201, ""),
        (json, megabyte.clone(), 201, ""),
        (json, format!("\u{feff}{good}"), 201, ""),
        (json, format!("\u{feff}\u{feff}{good}"), 400, "parse_error"),
        (json, "\u{feff}".to_owned(), 400, "parse_error"),
        (json, format!("{megabyte} "), 413, "payload_too_large"),
        (json, "{".to_owned(), 400, "parse_error"),
        (json, "{}}".to_owned(), 400, "parse_error"),
        (json, r#"{"name":"\ud800"}"#.to_owned(), 400, "parse_error"),
        (json, deep, 400, "parse_error"),
        (json, String::new(), 400, "required"),
        ("text/plain", good.clone(), 415, "unsupported_media_type"),
        (
            "application/x-www-form-urlencoded",
            "name=A".to_owned(),
            415,
            "unsupported_media_type",
        ),
    ];
    for (content_type, body, status, code) in table {
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", content_type),
        ];
        let answer = fixture
            .request("POST", ORGANIZATIONS, &headers, body.as_bytes())
            .await;
        let shown = body.get(..body.len().min(40)).unwrap();
        assert_eq!(
            answer.error(),
            (status, code, (code == "required").then_some("name")),
            "{content_type} {shown}"
        );
    }
}

async fn read_only_and_unknown_fields_are_ignored() {
    let fixture = Fixture::new().await;
    let before = fixture.get(ORGANIZATION).await.body;
    let body = json!({ "id": "x", "slug": 7, "member_count": null, "colour": { "a": 1 } });
    let after = fixture.call("PATCH", ORGANIZATION, &body).await;
    assert_eq!((after.status, after.body), (200, before));
}

async fn a_list_that_is_too_long_is_refused_before_its_items() {
    let fixture = Fixture::new().await;
    let bulk = format!("{ORGANIZATION}invites/bulk/");
    let table = [
        (json!(vec![0; 9_000]), "max_length", None),
        (
            json!([{ "target_email": 0 }, 0]),
            "invalid_input",
            Some("0__target_email"),
        ),
    ];
    for (body, code, attr) in table {
        let refused = fixture.call("POST", &bulk, &body).await;
        assert_eq!(refused.error(), (400, code, attr));
    }
}

async fn bodies_that_overflow_the_stack_of_other_readers_are_refused() {
    let fixture = Fixture::new().await;
    let bearer = format!("Bearer {}", fixture.owner_key());
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    for path in ["/api/personal_api_keys/@current/", ORGANIZATION] {
        let body = format!("{{\"x\": {}}}", nested_markers(200, 120));
        let refused = fixture
            .request("PATCH", path, &headers, body.as_bytes())
            .await;
        assert_eq!(refused.error(), (400, "parse_error", None), "{path}");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains("are reserved"), "{detail}");
        assert_eq!(fixture.get(path).await.status, 200);
    }

    let plugins = format!("{ORGANIZATION}plugins/");
    let plugin = fixture.call("POST", &plugins, &json!({})).await;
    assert_eq!(plugin.status, 201, "{plugin:?}");
    let source = format!("{plugins}{}/update_source/", plugin.body["id"]);
    let manifest = json!({ "plugin.json": nested_markers(200, 120) });
    let refused = fixture.call("PATCH", &source, &manifest).await;
    let error = (400, "invalid_input", Some("plugin.json"));
    assert_eq!(refused.error(), error);

    let exports = format!("{ORGANIZATION}batch_exports/");
    let config = json!({ "bucket_name": "b", "service_account_key": nested_markers(30, 120) });
    let destination = json!({ "type": "GCS", "config": config });
    let new = json!({ "name": "A", "interval": "hour", "destination": destination });
    let refused = fixture.call("POST", &exports, &new).await;
    let attr = Some("destination__config__service_account_key");
    assert_eq!(refused.error(), (400, "invalid_input", attr));
    for path in [&plugins, &exports] {
        assert_eq!(fixture.get(path).await.status, 200, "{path}");
    }
}

async fn bodies_of_too_many_values_are_refused() {
    let fixture = Fixture::new().await;
    let objects = |count: usize| json!({ "x": vec![json!({ "": 0 }); count] });
    // The body and its list are values, too.
    let table = [(4_999, None), (5_000, Some("body_too_complex"))];
    for (count, code) in table {
        let answer = fixture.call("PATCH", ORGANIZATION, &objects(count)).await;
        match code {
            None => assert_eq!(answer.status, 200, "{answer:?}"),
            Some(code) => {
                assert_eq!(answer.error(), (400, code, None));
                assert_eq!(answer.body["type"], "invalid_request");
                let detail = answer.body["detail"].as_str().unwrap();
                assert!(detail.contains("10000 values"), "{detail}");
            }
        }
    }
}
