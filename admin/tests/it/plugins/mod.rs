//! Plugins: five views of one table, with their uses.

mod access;
mod catalogue;
mod source;

use crate::Fixture;
use millrace_organizations::PluginFamily;
use serde_json::{Value, json};

on_both!(
    a_plugin_is_made_read_changed_and_deleted_in_each_family,
    invalid_fields_are_named,
    uses_are_listed_without_secrets_and_the_rest_is_unused,
    a_plugin_appears_in_the_view_of_its_capabilities,
    secrets_in_a_plugins_url_are_in_no_response_and_no_log,
);

const ORGANIZATION: &str = "/api/organizations/@current";

fn all(family: PluginFamily) -> String {
    format!("{ORGANIZATION}/{}/", family.segment())
}

/// Creates a plugin; returns it and its path.
async fn made(fixture: &Fixture, family: PluginFamily, new: Value) -> (Value, String) {
    let answer = fixture.call("POST", &all(family), &new).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let path = format!("{}{}/", all(family), answer.body["id"]);
    (answer.body, path)
}

fn ids(list: &Value) -> Vec<i64> {
    let rows = list["results"].as_array().unwrap().iter();
    rows.map(|row| row["id"].as_i64().unwrap()).collect()
}

async fn a_plugin_is_made_read_changed_and_deleted_in_each_family() {
    for family in PluginFamily::ALL {
        let fixture = Fixture::new().await;
        let (plugin, path) = made(&fixture, family, json!({ "plugin_type": "source" })).await;
        let expected = json!({
            "id": plugin["id"], "plugin_type": "source", "name": null, "description": null,
            "url": null, "icon": null, "config_schema": {}, "tag": null, "latest_tag": null,
            "is_global": false, "organization_id": fixture.made.organization_id,
            "organization_name": plugin["organization_name"],
            "capabilities": family.default_capabilities(), "metrics": {}, "public_jobs": {},
        });
        assert_eq!(plugin, expected);
        assert_eq!(fixture.get(&path).await.body, plugin);
        for other in PluginFamily::ALL {
            let listed = fixture.get(&all(other)).await;
            let seen = other == family || other == PluginFamily::Plugins
                // A plugin without capabilities counts as a front-end app.
                || (family, other) == (PluginFamily::Plugins, PluginFamily::FrontendApps);
            assert_eq!(
                ids(&listed.body).len(),
                usize::from(seen),
                "{family:?} {other:?}"
            );
        }
        let change = json!({
            "name": "Nine", "description": "d", "icon": "i", "tag": "2", "config_schema": [],
            "metrics": { "sent": "sum" }, "public_jobs": null, "id": 4, "url": "https://a.example",
            "latest_tag": "x", "organization_id": "y", "organization_name": 4, "unknown": {},
        });
        let changed = fixture.call("PATCH", &path, &change).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        let mut expected = plugin.clone();
        for field in [
            "name",
            "description",
            "icon",
            "tag",
            "config_schema",
            "metrics",
            "public_jobs",
        ] {
            expected[field] = change[field].clone();
        }
        assert_eq!(changed.body, expected);
        let put = fixture
            .call("PUT", &path, &json!({ "plugin_type": null }))
            .await;
        assert_eq!((put.status, &put.body["plugin_type"]), (200, &Value::Null));
        let log = fixture.get(&format!("{}activity/", all(family))).await;
        let activities: Vec<_> = log.body["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["activity"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(activities, ["updated", "updated", "installed"]);
        assert_eq!(log.body["results"][0]["scope"], "Plugin");
        assert_eq!(fixture.call("DELETE", &path, &json!({})).await.status, 204);
        assert_eq!(fixture.get(&path).await.error(), (404, "not_found", None));
    }
}

async fn invalid_fields_are_named() {
    let fixture = Fixture::new().await;
    let (_, path) = made(&fixture, PluginFamily::Plugins, json!({})).await;
    let (long, longer) = ("x".repeat(801), "x".repeat(65_537));
    let table = [
        (
            json!({ "plugin_type": "other" }),
            "invalid_choice",
            "plugin_type",
        ),
        (json!({ "plugin_type": 3 }), "invalid_choice", "plugin_type"),
        (json!({ "name": &long }), "max_length", "name"),
        (json!({ "icon": &long }), "max_length", "icon"),
        (json!({ "tag": &long }), "max_length", "tag"),
        (
            json!({ "description": &longer }),
            "max_length",
            "description",
        ),
        (
            json!({ "config_schema": [&longer] }),
            "max_length",
            "config_schema",
        ),
        (
            json!({ "capabilities": &longer }),
            "max_length",
            "capabilities",
        ),
        (
            json!({ "metrics": { &longer: 1 } }),
            "max_length",
            "metrics",
        ),
        (
            json!({ "public_jobs": &longer }),
            "max_length",
            "public_jobs",
        ),
        (json!({ "is_global": null }), "null", "is_global"),
        (json!({ "is_global": "yes" }), "invalid_input", "is_global"),
        (json!({ "capabilities": null }), "null", "capabilities"),
        (json!({ "config_schema": null }), "null", "config_schema"),
    ];
    for (body, code, attr) in table {
        for (method, path) in [
            ("POST", all(PluginFamily::Plugins)),
            ("PATCH", path.clone()),
        ] {
            let answer = fixture.call(method, &path, &body).await;
            assert_eq!(answer.error(), (400, code, Some(attr)), "{method} {body}");
        }
    }
    let required = fixture.call("PUT", &path, &json!({ "name": "a" })).await;
    assert_eq!(required.error(), (400, "required", Some("plugin_type")));
    let crabs = format!("https://a.example/{}", "🦀".repeat(700));
    for url in ["not an address", "ftp://a.example/x", &long, &crabs] {
        let answer = fixture
            .call("POST", &all(PluginFamily::Plugins), &json!({ "url": url }))
            .await;
        assert_eq!(
            (answer.status, &answer.body["attr"]),
            (400, &json!("url")),
            "{url}"
        );
    }
}

async fn uses_are_listed_without_secrets_and_the_rest_is_unused() {
    let fixture = Fixture::new().await;
    let schema = json!([{ "key": "token", "secret": true }, { "key": "url" }]);
    let new = json!({ "plugin_type": "source", "name": "Sender", "config_schema": schema });
    let (plugin, _) = made(&fixture, PluginFamily::Destinations, new).await;
    let (other, _) = made(&fixture, PluginFamily::Destinations, json!({})).await;
    let values = json!({ "token": "s3cret", "url": "u" });
    let project_id = fixture.made.project_id;
    let id = plugin["id"].as_i64().unwrap();
    let secret = ["token"];
    fixture
        .catalog
        .configure_plugin(id, project_id, true, values, Some(&secret))
        .await
        .unwrap();
    let below = all(PluginFamily::Destinations);
    let uses = fixture
        .get(&format!("{below}exports_unsubscribe_configs/"))
        .await;
    assert_eq!(
        (uses.status, &uses.body["count"]),
        (200, &json!(1)),
        "{uses:?}"
    );
    let found = &uses.body["results"][0];
    assert_eq!(found["config"], json!({ "token": "********", "url": "u" }));
    assert_eq!(
        (&found["plugin"], &found["plugin_info"]),
        (&plugin["id"], &plugin)
    );
    assert_eq!(
        (&found["team_id"], &found["enabled"]),
        (&json!(project_id.0), &json!(true))
    );
    assert!(!uses.body.to_string().contains("s3cret"));
    let unused = fixture.get(&format!("{below}unused/")).await;
    assert_eq!(ids(&unused.body), [other["id"].as_i64().unwrap()]);
    let log = fixture.get(&format!("{below}activity/")).await;
    assert!(!log.body.to_string().contains("s3cret"));
}

async fn a_plugin_appears_in_the_view_of_its_capabilities() {
    let fixture = Fixture::new().await;
    let new = json!({
        "plugin_type": "custom",
        "capabilities": { "methods": ["processEvent"] },
    });
    let (record, path) = made(&fixture, PluginFamily::Destinations, new).await;
    assert_eq!(fixture.get(&path).await.status, 404);
    for (family, seen) in [
        (PluginFamily::Destinations, vec![]),
        (
            PluginFamily::Transformations,
            vec![record["id"].as_i64().unwrap()],
        ),
    ] {
        assert_eq!(ids(&fixture.get(&all(family)).await.body), seen);
    }
}

async fn secrets_in_a_plugins_url_are_in_no_response_and_no_log() {
    let fixture = Fixture::new().await;
    let table = [
        "https://a.example/p?tag=1&private_token=s3cret",
        "https://ann:s3cret@a.example/p",
        "https://s3cret@a.example/p",
    ];
    for url in table {
        let new = json!({ "plugin_type": "custom", "url": url });
        let (plugin, path) = made(&fixture, PluginFamily::Plugins, new).await;
        assert_eq!(plugin["url"], "https://a.example/p");
        let changed = fixture.call("PATCH", &path, &json!({ "tag": "2" })).await;
        assert_eq!(changed.body["url"], plugin["url"]);
        let upgrade = format!("{path}upgrade/");
        let upgraded = fixture.call("POST", &upgrade, &json!({ "tag": "3" })).await;
        assert_eq!(upgraded.body["url"], plugin["url"]);
        let below = all(PluginFamily::Plugins);
        for path in [
            path.clone(),
            format!("{path}source/"),
            format!("{path}check_for_updates/"),
            below.clone(),
            format!("{below}unused/"),
            format!("{below}activity/"),
            format!("{ORGANIZATION}/activity/"),
        ] {
            let answer = fixture.get(&path).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            assert!(!answer.body.to_string().contains("s3cret"), "{answer:?}");
        }
    }
}
