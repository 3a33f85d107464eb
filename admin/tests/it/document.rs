//! The OpenAPI document matches the router and the responses.

use crate::Fixture;
use serde_json::Value;

on_both!(
    document_and_router_have_the_same_methods,
    responses_match_the_document,
    the_page_loads_nothing_from_elsewhere,
    the_front_page_leads_to_the_document,
);

const METHODS: [&str; 5] = ["get", "post", "patch", "put", "delete"];

fn filled(template: &str) -> String {
    let parts = template.split('/').map(|part| {
        if part.starts_with('{') {
            "@current"
        } else {
            part
        }
    });
    parts.collect::<Vec<_>>().join("/")
}

async fn document_and_router_have_the_same_methods() {
    let fixture = Fixture::new().await;
    let document = fixture.get("/api/schema/").await;
    assert_eq!(document.status, 200);
    assert_eq!(document.body["openapi"], "3.1.0");
    let paths = document.body["paths"].as_object().unwrap();
    assert!(paths.len() > 10);
    for (template, operations) in paths {
        let path = filled(template);
        for method in METHODS {
            let answer = fixture.send(&method.to_uppercase(), &path, None).await;
            let is_open = operations
                .as_object()
                .unwrap()
                .values()
                .all(|one| one["security"][0] == serde_json::json!({}));
            if operations.get(method).is_none() && is_open {
                assert_eq!(answer.status, 405, "{method} {path}");
            } else if !is_open {
                assert_eq!(
                    answer.error(),
                    (401, "not_authenticated", None),
                    "{method} {path}"
                );
            }
        }
        // With a key, exactly the methods that the document lacks are answered 405.
        let allowed = fixture
            .send("TRACE", &path, Some(fixture.owner_key()))
            .await;
        let mut expected: Vec<_> = METHODS
            .iter()
            .filter(|method| operations.get(**method).is_some())
            .map(|method| method.to_uppercase())
            .collect();
        let mut got: Vec<_> = allowed
            .header("allow")
            .split(", ")
            .filter(|method| *method != "HEAD")
            .map(str::to_owned)
            .collect();
        if allowed.status == 405 {
            expected.sort();
            got.sort();
            assert_eq!(got, expected, "{path}");
        } else {
            assert_eq!(allowed.status, 404, "{path}");
        }
    }
}

async fn responses_match_the_document() {
    let fixture = Fixture::new().await;
    let document = fixture.get("/api/schema/").await.body;
    let paths = document["paths"].as_object().unwrap();
    let mut checked = 0;
    for (template, operations) in paths {
        let Some(operation) = operations.get("get") else {
            continue;
        };
        let content = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        let answer = fixture.get(&filled(template)).await;
        if answer.status != 200 || content.is_null() {
            continue;
        }
        let mut schema = content.clone();
        schema["components"] = document["components"].clone();
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(&schema)
            .unwrap();
        let errors: Vec<_> = validator
            .iter_errors(&answer.body)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{template}: {errors:?}");
        checked += 1;
    }
    assert!(checked >= 8, "{checked}");
}

async fn the_page_loads_nothing_from_elsewhere() {
    let fixture = Fixture::new().await;
    let page = fixture.page("/api/docs/").await;
    assert!(page.starts_with("<!doctype html>"));
    // Examples contain addresses as texts.
    let outside = |part: &str| part.split("</pre>").last().unwrap_or_default().to_owned();
    let shown: String = page.split("<pre>").map(outside).collect();
    for needle in [
        "<script", "<link", "@import", "url(", "src=", "http://", "https://",
    ] {
        assert!(!shown.contains(needle), "{needle}");
    }
    let document = fixture.get("/api/schema/").await.body;
    for (path, operations) in document["paths"].as_object().unwrap() {
        // A line may end behind each slash, and within no name.
        let breakable = path.replace('/', "/<wbr>");
        assert!(page.contains(&breakable), "{path}");
        for operation in operations.as_object().unwrap().values() {
            let summary = operation["summary"].as_str().unwrap();
            assert!(page.contains(summary), "{summary}");
        }
    }
    let answer = fixture.send("GET", "/api/docs/", None).await;
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    assert!(
        answer
            .header("content-security-policy")
            .starts_with("default-src 'none'")
    );
    assert_eq!(answer.body, Value::Null);
}

async fn the_front_page_leads_to_the_document() {
    let fixture = Fixture::new().await;
    for method in ["GET", "HEAD"] {
        let answer = fixture.send(method, "/", None).await;
        assert_eq!(answer.status, 302, "{method}");
        assert_eq!(answer.header("location"), "/api/docs/");
        assert!(!answer.header("x-request-id").is_empty());
    }
    let links = fixture.send("GET", "/", None).await.body;
    for name in ["docs", "schema"] {
        let there = fixture
            .send("GET", links[name].as_str().unwrap(), None)
            .await;
        assert_eq!(there.status, 200, "{name}");
    }
    assert_eq!(fixture.send("POST", "/", None).await.status, 404);
}
