//! The OpenAPI document matches the router and the responses.

use crate::Fixture;
use serde_json::Value;
use std::collections::BTreeSet;

on_both!(
    document_and_router_have_the_same_methods,
    responses_match_the_document,
    the_page_loads_nothing_from_elsewhere,
    the_page_shows_every_operation,
    every_link_of_the_page_leads_somewhere,
    style_script_page_and_document_are_compressed,
    the_front_page_leads_to_the_document,
    the_console_is_at_the_addresses_of_its_screens,
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
        "<style", "style=", "@import", "url(", "http://", "https://", "onclick=",
    ] {
        assert!(!shown.contains(needle), "{needle}");
    }
    for (element, attribute) in [("<link rel=\"stylesheet\"", "href"), ("<script", "src")] {
        assert_eq!(shown.matches(element).count(), 1, "{element}");
        let place = format!("{element} {attribute}=\"/api/docs/docs-");
        assert!(shown.contains(&place), "{place}");
    }
    let answer = fixture.send("GET", "/api/docs/", None).await;
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    let policy = answer.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(answer.body, Value::Null);
}

async fn the_page_shows_every_operation() {
    let fixture = Fixture::new().await;
    let page = fixture.page("/api/docs/").await;
    let document = fixture.get("/api/schema/").await.body;
    for (path, operations) in document["paths"].as_object().unwrap() {
        // A line may end behind each slash, and within no name.
        let breakable = path.replace('/', "/<wbr>");
        assert!(page.contains(&breakable), "{path}");
        for operation in operations.as_object().unwrap().values() {
            let summary = operation["summary"].as_str().unwrap();
            assert!(page.contains(&summary.replace('\'', "&#39;")), "{summary}");
        }
    }
    for tag in document["tags"].as_array().unwrap() {
        let heading = format!(
            "<h2 id=\"{}\">{}</h2>",
            tag["name"].as_str().unwrap(),
            tag["x-displayName"].as_str().unwrap()
        );
        assert!(page.contains(&heading), "{heading}");
    }
    // Families of plugins are shown once.
    assert!(!page.contains("id=\"organizations_pipeline_import_apps_list\""));
    assert!(page.contains("id=\"organizations_plugins_list\""));
}

async fn every_link_of_the_page_leads_somewhere() {
    let page = Fixture::new().await.page("/api/docs/").await;
    let values = |attribute: &str| -> BTreeSet<String> {
        let mark = format!(" {attribute}=\"");
        let parts = page.split(&mark).skip(1);
        let values = parts.filter_map(|part| part.split('"').next());
        values.map(str::to_owned).collect()
    };
    let ids = values("id");
    let links = values("href");
    let inner: Vec<&str> = links
        .iter()
        .filter_map(|link| link.strip_prefix('#'))
        .collect();
    assert!(inner.len() > 30, "{}", inner.len());
    let lost: Vec<&&str> = inner.iter().filter(|link| !ids.contains(**link)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(
        page.matches(" id=\"").count(),
        ids.len(),
        "an id is there twice"
    );
}

async fn style_script_page_and_document_are_compressed() {
    let fixture = Fixture::new().await;
    let page = fixture.page("/api/docs/").await;
    let named = |attribute: &str| {
        let rest = page.split(&format!("{attribute}=\"/api/docs/")).nth(1);
        let name = rest.and_then(|rest| rest.split('"').next()).unwrap();
        format!("/api/docs/{name}")
    };
    let table = [
        (named("href"), "text/css; charset=utf-8"),
        (named("src"), "text/javascript; charset=utf-8"),
        ("/api/docs/".to_owned(), "text/html; charset=utf-8"),
        ("/api/schema/".to_owned(), "application/json"),
    ];
    for (path, content_type) in table {
        let mut tags = Vec::new();
        for (accepted, coding) in [("gzip, br", "gzip"), ("identity", "")] {
            let headers = [("accept-encoding", accepted)];
            let answer = fixture.request("GET", &path, &headers, b"").await;
            assert_eq!(answer.status, 200, "{path}");
            assert_eq!(answer.header("content-type"), content_type, "{path}");
            assert_eq!(answer.header("content-encoding"), coding, "{path}");
            assert_eq!(answer.header("vary"), "Accept-Encoding", "{path}");
            tags.push(answer.header("etag").to_owned());
        }
        assert!(tags[0].is_empty() || tags[0] != tags[1], "{path}");
    }
    let unknown = fixture.send("GET", "/api/docs/docs-0.css", None).await;
    assert_eq!(unknown.error(), (404, "not_found", None));
}

async fn the_front_page_leads_to_the_document() {
    let fixture = Fixture::new().await;
    for (method, path) in [("GET", "/api/"), ("HEAD", "/api/"), ("GET", "/api")] {
        for (accepted, status, location) in [
            ("text/html,*/*;q=0.8", 302, "/api/docs/"),
            ("application/json", 200, ""),
            ("*/*", 200, ""),
        ] {
            let headers = [("accept", accepted)];
            let answer = fixture.request(method, path, &headers, b"").await;
            let case = format!("{method} {path} {accepted}");
            assert_eq!(answer.status, status, "{case}");
            assert_eq!(answer.header("location"), location, "{case}");
            assert!(!answer.header("x-request-id").is_empty(), "{case}");
        }
    }
    let answer = fixture.send("GET", "/api/", None).await;
    assert_eq!(answer.status, 200);
    for name in ["docs", "schema", "console"] {
        let there = fixture
            .send("GET", answer.body[name].as_str().unwrap(), None)
            .await;
        assert_eq!(there.status, 200, "{name}");
    }
    assert_eq!(answer.body["ingest_url"], Value::Null);
    assert_eq!(fixture.send("POST", "/api/", None).await.status, 404);
}

/// Built or not, there is a page at the addresses of the console, and nothing inline is allowed.
async fn the_console_is_at_the_addresses_of_its_screens() {
    let fixture = Fixture::new().await;
    for path in ["/", "/key", "/projects/1/live", "/operator"] {
        let answer = fixture.send("GET", path, None).await;
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert!(!answer.header("x-request-id").is_empty());
    }
    for (method, path) in [
        ("POST", "/"),
        ("GET", "/assets/none.js"),
        ("GET", "/index.html"),
    ] {
        let answer = fixture.send(method, path, None).await;
        assert_eq!(answer.status, 404, "{method} {path}");
    }
}
