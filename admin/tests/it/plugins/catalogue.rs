//! Plugins of the catalogue: listed, installed and upgraded.

use super::{all, made};
use crate::Fixture;
use millrace_admin::plugin_catalogue::{CatalogueSource, PluginCatalogue};
use millrace_organizations::PluginFamily;
use serde_json::{Value, json};
use tempfile::TempDir;

on_both!(
    the_catalogue_installs_checks_and_upgrades,
    the_catalogue_is_listed_in_pages,
);

const WEBHOOK: &str = "https://plugins.millrace.example/webhook";

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
