//! Plugins: five views of one table, with their files and the catalogue.

use crate::Fixture;
use crate::access::{self, Rule};
use millrace_admin::plugin_catalogue::{CatalogueSource, PluginCatalogue};
use millrace_catalog::{Actor, Level, Scopes};
use millrace_organizations::{NewPersonalKey, PersonalKeys, PluginFamily};
use serde_json::{Value, json};
use tempfile::TempDir;

on_both!(
    every_operation_requires_its_scope_and_organization,
    members_may_write_unless_the_organization_forbids_it,
    a_plugin_is_made_read_changed_and_deleted_in_each_family,
    invalid_fields_are_named,
    global_plugins_need_the_operator_and_are_seen_by_all,
    the_source_determines_a_plugins_capabilities,
    invalid_files_are_named,
    the_catalogue_installs_checks_and_upgrades,
    the_catalogue_is_listed_in_pages,
    uses_are_listed_without_secrets_and_the_rest_is_unused,
    plugins_access_level_limits_reading_and_writing,
    a_plugin_appears_in_the_view_of_its_capabilities,
    secrets_in_a_plugins_url_are_in_no_response_and_no_log,
);

const ORGANIZATION: &str = "/api/organizations/@current";
const WEBHOOK: &str = "https://plugins.millrace.example/webhook";

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

async fn every_operation_requires_its_scope_and_organization() {
    const READ: &[&str] = &["plugin:read", "plugin:write", "*"];
    const WRITE: &[&str] = &["plugin:write", "*"];
    let below = [
        ("GET", "", READ),
        ("POST", "", WRITE),
        ("GET", "77/", READ),
        ("PATCH", "77/", WRITE),
        ("PUT", "77/", WRITE),
        ("DELETE", "77/", WRITE),
        ("GET", "77/check_for_updates/", READ),
        ("GET", "77/source/", READ),
        ("PATCH", "77/update_source/", WRITE),
        ("POST", "77/upgrade/", WRITE),
        ("GET", "activity/", READ),
        ("GET", "exports_unsubscribe_configs/", READ),
        ("GET", "repository/", READ),
        ("GET", "unused/", READ),
    ];
    for family in PluginFamily::ALL {
        let fixture = Fixture::new().await;
        let paths = below.map(|(_, path, _)| format!("{}/{path}", family.segment()));
        let rules: Vec<Rule<'_>> = below
            .iter()
            .zip(&paths)
            .map(|((method, _, scopes), path)| (*method, path.as_str(), *scopes, Level::Member))
            .collect();
        access::check(&fixture, &rules).await;
    }
}

async fn members_may_write_unless_the_organization_forbids_it() {
    let fixture = Fixture::new().await;
    let member = fixture.member("mia@example.com", Level::Member).await;
    let administrator = fixture
        .member("ada@example.com", Level::Administrator)
        .await;
    let off = json!({ "members_can_write_pipelines": false });
    let path = format!("{ORGANIZATION}/");
    assert_eq!(fixture.call("PATCH", &path, &off).await.status, 200);
    for family in PluginFamily::ALL {
        let path = all(family);
        let new = json!({ "plugin_type": "source" });
        let refused = fixture.call_with(&member, "POST", &path, &new).await;
        assert_eq!(refused.error(), (403, "permission_denied", None));
        let made = fixture.call_with(&administrator, "POST", &path, &new).await;
        assert_eq!(made.status, 201);
        let seen = fixture.send("GET", &path, Some(&member)).await;
        assert_eq!((seen.status, &seen.body["count"]), (200, &json!(1)));
        for (method, rest) in [
            ("PATCH", ""),
            ("DELETE", ""),
            ("PATCH", "update_source/"),
            ("POST", "upgrade/"),
        ] {
            let path = format!("{path}{}/{rest}", made.body["id"]);
            let refused = fixture.call_with(&member, method, &path, &json!({})).await;
            assert_eq!(
                refused.error(),
                (403, "permission_denied", None),
                "{method} {rest}"
            );
        }
        let path = format!("{path}{}/", made.body["id"]);
        assert_eq!(fixture.call("DELETE", &path, &json!({})).await.status, 204);
    }
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

async fn global_plugins_need_the_operator_and_are_seen_by_all() {
    let fixture = Fixture::new().await;
    let operator = {
        let new = NewPersonalKey {
            email: fixture.made.owner_email.clone(),
            label: "Operator".to_owned(),
            scopes: Scopes::parse(["*", "operator"]).unwrap(),
            expires_at: None,
            scoped_organizations: None,
        };
        let key = PersonalKeys::new(&fixture.catalog)
            .create(&Actor::command_line(), new)
            .await;
        key.unwrap().value.expose().to_owned()
    };
    let (_, path) = made(
        &fixture,
        PluginFamily::Plugins,
        json!({ "is_global": false }),
    )
    .await;
    let global = json!({ "is_global": true });
    for (method, path) in [
        ("POST", all(PluginFamily::Plugins)),
        ("PATCH", path.clone()),
    ] {
        let refused = fixture.call(method, &path, &global).await;
        assert_eq!(
            refused.error(),
            (403, "permission_denied", None),
            "{method}"
        );
    }
    let made = fixture.call_with(&operator, "PATCH", &path, &global).await;
    assert_eq!((made.status, &made.body["is_global"]), (200, &json!(true)));
    let unchanged = fixture.call("PATCH", &path, &json!({ "name": "a" })).await;
    assert_eq!(unchanged.status, 403, "it is the operator's now");
    let deleted = fixture
        .call_with(&operator, "DELETE", &path, &json!({}))
        .await;
    assert_eq!(deleted.error(), (400, "invalid_input", None));
    let other = fixture
        .call("POST", "/api/organizations/", &json!({ "name": "Other" }))
        .await;
    let theirs = path.replace("@current", other.body["id"].as_str().unwrap());
    assert_eq!(fixture.get(&theirs).await.body["id"], made.body["id"]);
    let refused = fixture
        .call_with(&operator, "PATCH", &theirs, &json!({ "name": "b" }))
        .await;
    assert_eq!(refused.error(), (403, "permission_denied", None));
}

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

async fn the_catalogue_installs_checks_and_upgrades() {
    let folder = TempDir::new().unwrap();
    let publish = |tag: &str, method: &str| {
        let index = json!([{
            "name": "Sender", "url": "https://c.example/sender", "type": "data_out", "tag": tag,
            "description": "Sends", "path": "sender", "files": ["index.js", "plugin.json"],
        }]);
        let inside = folder.path().join("sender");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(folder.path().join("plugins.json"), index.to_string()).unwrap();
        std::fs::write(
            inside.join("index.js"),
            format!("export function {method}() {{}}"),
        )
        .unwrap();
        std::fs::write(inside.join("plugin.json"), r#"{"config": []}"#).unwrap();
    };
    publish("1.0", "onEvent");
    let source = CatalogueSource::parse(folder.path().to_str().unwrap()).unwrap();
    let fixture = Fixture::with_services(|services| {
        services.plugin_catalogue = PluginCatalogue::new(source);
    })
    .await;
    let new = json!({ "plugin_type": "repository", "url": "https://c.example/sender" });
    let (plugin, path) = made(&fixture, PluginFamily::Destinations, new.clone()).await;
    let installed = (&plugin["name"], &plugin["tag"], &plugin["latest_tag"]);
    assert_eq!(installed, (&json!("Sender"), &json!("1.0"), &json!("1.0")));
    let twice = fixture
        .call("POST", &all(PluginFamily::Destinations), &new)
        .await;
    assert_eq!(twice.error(), (400, "unique", Some("url")));

    let check = format!("{path}check_for_updates/");
    let checked = fixture.get(&check).await;
    assert_eq!((checked.status, &checked.body["plugin"]), (200, &plugin));
    publish("2.0", "composeWebhook");
    let checked = fixture.get(&check).await;
    assert_eq!(checked.body["plugin"]["latest_tag"], "2.0");
    assert_eq!(
        (&checked.body["latest_tag"], &checked.body["tag"]),
        (&json!("2.0"), &json!("1.0"))
    );
    let upgraded = fixture
        .call("POST", &format!("{path}upgrade/"), &json!({ "icon": "i" }))
        .await;
    assert_eq!(
        (upgraded.status, &upgraded.body["tag"]),
        (200, &json!("2.0"))
    );
    assert_eq!(
        upgraded.body["capabilities"]["methods"],
        json!(["composeWebhook"])
    );
    assert_eq!(upgraded.body["icon"], "i");

    std::fs::remove_file(folder.path().join("plugins.json")).unwrap();
    for path in [check, format!("{}repository/", all(PluginFamily::Plugins))] {
        let answer = fixture.get(&path).await;
        assert_eq!(answer.error(), (503, "unavailable", None), "{path}");
    }
}

async fn the_catalogue_is_listed_in_pages() {
    let fixture = Fixture::new().await;
    for family in PluginFamily::ALL {
        let path = format!("{}repository/", all(family));
        let whole = fixture.get(&path).await;
        assert_eq!((whole.status, &whole.body["count"]), (200, &json!(2)));
        let webhook = &whole.body["results"][1];
        let expected = json!({
            "name": "Webhook", "url": WEBHOOK, "description": webhook["description"],
            "verified": true, "maintainer": "official", "type": "data_out",
            "displayOnWebsiteLib": true, "tag": "1.0.0",
        });
        assert_eq!(webhook, &expected);
        let second = fixture.get(&format!("{path}?limit=1&offset=1")).await;
        assert_eq!(second.body["results"], json!([expected]));
        assert_eq!(second.body["next"], Value::Null);
        assert!(
            second.body["previous"]
                .as_str()
                .unwrap()
                .ends_with("?limit=1")
        );
    }
    let new = json!({ "url": WEBHOOK, "plugin_type": "repository" });
    let (plugin, path) = made(&fixture, PluginFamily::Plugins, new).await;
    assert_eq!(plugin["capabilities"]["methods"], json!(["composeWebhook"]));
    assert_eq!(
        fixture.get(&format!("{path}source/")).await.body["source"]
            .as_object()
            .unwrap()
            .len(),
        2
    );
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

async fn plugins_access_level_limits_reading_and_writing() {
    let fixture = Fixture::new().await;
    let (_, path) = made(&fixture, PluginFamily::Plugins, json!({})).await;
    for (level, read, write) in [(0, 403, 403), (3, 200, 403), (6, 200, 200)] {
        fixture
            .execute(&format!(
                "UPDATE organizations SET plugins_access_level = {level}"
            ))
            .await;
        for rest in ["", "source/", "check_for_updates/"] {
            let answer = fixture.get(&format!("{path}{rest}")).await;
            assert_eq!(answer.status, read, "{level} {rest}");
        }
        for rest in [
            "",
            "activity/",
            "repository/",
            "unused/",
            "exports_unsubscribe_configs/",
        ] {
            let answer = fixture
                .get(&format!("{}{rest}", all(PluginFamily::Plugins)))
                .await;
            assert_eq!(answer.status, read, "{level} {rest}");
        }
        for (method, rest) in [
            ("PATCH", ""),
            ("PATCH", "update_source/"),
            ("POST", "upgrade/"),
        ] {
            let answer = fixture
                .call(method, &format!("{path}{rest}"), &json!({}))
                .await;
            assert_eq!(answer.status, write, "{level} {method} {rest}");
            if write == 403 {
                assert_eq!(answer.error(), (403, "payment_required", None));
            }
        }
    }
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
