//! What the activity log says of plugins.

use super::{create, files, named, writer};
use crate::fixture::Fixture;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Activity, ActivityScope, Family, PluginFields};

on_both!(every_change_leaves_an_entry_without_texts,);

async fn every_change_leaves_an_entry_without_texts(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let place = writer(&fixture, Family::Plugins);
    let id = create(place, &fixture, "A").await.plugin.id;
    let none = PluginFields::default;
    let secret = "const password = 'hunter2'";
    catalog
        .update_plugin_source(place, id, none(), files(&[("a.js", Some(secret))]))
        .await
        .unwrap();
    catalog
        .update_plugin_source(place, id, none(), files(&[("a.js", Some(secret))]))
        .await
        .unwrap();
    catalog
        .update_plugin(place, id, named("B").fields)
        .await
        .unwrap();
    catalog
        .update_plugin(place, id, named("B").fields)
        .await
        .unwrap();
    catalog.delete_plugin(place, id).await.unwrap();
    let entries = fixture.activity(ActivityScope::Plugin).await;
    let deeds: Vec<_> = entries.iter().rev().map(|entry| entry.activity).collect();
    let expected = [
        Activity::Installed,
        Activity::Updated,
        Activity::Updated,
        Activity::Uninstalled,
    ];
    assert_eq!(deeds, expected, "what changes nothing is no deed");
    for entry in &entries {
        assert_eq!(entry.item_id, id.to_string());
        assert!(
            !serde_json::to_string(&entry.detail)
                .unwrap()
                .contains("hunter2")
        );
    }
    assert_eq!(entries[1].detail.changes[0].field, "name");
    assert_eq!(entries[2].detail.changes[0].field, "a.js");
}
