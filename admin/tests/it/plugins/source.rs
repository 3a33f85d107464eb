//! Source files of plugins, and the capabilities that follow from them.

use super::{all, made};
use crate::Fixture;
use millrace_organizations::PluginFamily;
use serde_json::{Value, json};

on_both!(
    the_source_determines_a_plugins_capabilities,
    invalid_files_are_named,
);

async fn the_source_determines_a_plugins_capabilities() {
    let fixture = Fixture::new().await;
    let (_, path) = made(
        &fixture,
        PluginFamily::Transformations,
        json!({ "plugin_type": "source" }),
    )
    .await;
    let change = json!({
        "tag": "3", "id": 9, "url": "x", "latest_tag": 1, "organization_name": null,
        "index.js": "export function onEvent(event) {}",
        "plugin.json": r#"{"name": "Sender", "config": [{"key": "a", "type": "string"}]}"#,
    });
    let changed = fixture
        .call("PATCH", &format!("{path}update_source/"), &change)
        .await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let files = json!({ "index.js": change["index.js"], "plugin.json": change["plugin.json"] });
    assert_eq!(changed.body["source"], files);
    assert_eq!(changed.body["capabilities"]["methods"], json!(["onEvent"]));
    let settled = (
        &changed.body["name"],
        &changed.body["tag"],
        &changed.body["url"],
    );
    assert_eq!(settled, (&json!("Sender"), &json!("3"), &Value::Null));

    // It moved to the view of its new capabilities.
    assert_eq!(fixture.get(&path).await.status, 404);
    let path = path.replace("transformations", "destinations");
    let ignored = json!({ "capabilities": { "methods": ["processEvent"] } });
    let kept = fixture.call("PATCH", &path, &ignored).await;
    assert_eq!(kept.body["capabilities"]["methods"], json!(["onEvent"]));
    let source = fixture.get(&format!("{path}source/")).await;
    assert_eq!((source.status, &source.body["source"]), (200, &files));
    assert_eq!(source.body["id"], kept.body["id"]);

    let emptied = json!({ "plugin.json": null, "missing.js": null });
    let less = fixture
        .call("PATCH", &format!("{path}update_source/"), &emptied)
        .await;
    assert_eq!(
        less.body["source"],
        json!({ "index.js": change["index.js"] })
    );
    let log = fixture
        .get(&format!("{}activity/", all(PluginFamily::Destinations)))
        .await;
    let text = log.body.to_string();
    assert!(
        text.contains("sha256:") && !text.contains("export function"),
        "{text}"
    );
}

async fn invalid_files_are_named() {
    let fixture = Fixture::new().await;
    let (_, path) = made(&fixture, PluginFamily::Destinations, json!({})).await;
    let good = json!({ "index.js": "export function onEvent() {}" });
    let changed = fixture
        .call("PATCH", &format!("{path}update_source/"), &good)
        .await;
    assert_eq!(changed.status, 200);
    let table = [
        (json!({ "index.js": 3 }), "invalid_input", Some("index.js")),
        (
            json!({ "plugin.json": "{" }),
            "invalid_input",
            Some("plugin.json"),
        ),
        (
            json!({ "plugin.json": r#"{"name": "a\u0000b"}"# }),
            "invalid_input",
            Some("plugin.json"),
        ),
        (json!({ "is_global": null }), "null", Some("is_global")),
        (
            json!({ "../../x.ts": "1" }),
            "invalid_input",
            Some("../../x.ts"),
        ),
        (json!({ "/x.ts": "1" }), "invalid_input", Some("/x.ts")),
        (json!({ "a//b.ts": "1" }), "invalid_input", Some("a//b.ts")),
        (
            json!({ "index.js": "let a\nexport functoin onEvent() {}" }),
            "invalid_input",
            Some("index.js"),
        ),
    ];
    for (body, code, attr) in table {
        let answer = fixture
            .call("PATCH", &format!("{path}update_source/"), &body)
            .await;
        assert_eq!(answer.error(), (400, code, attr), "{body}");
    }
    let broken = json!({ "index.js": "let a\nexport functoin onEvent() {}" });
    let answer = fixture
        .call("PATCH", &format!("{path}update_source/"), &broken)
        .await;
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(detail.contains("line 2, column 1"), "{detail}");
}
