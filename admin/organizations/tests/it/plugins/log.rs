//! Entries of the activity log about plugins.

use super::{create, files, named, plugins, writer_in};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Activity, ActivityScope, Patch};
use millrace_organizations::testing::fixture::Fixture;
use millrace_organizations::{FileChange, NewPlugin, PLUGIN_FILES_MAX, PluginFamily, PluginFields};
use serde_json::json;

on_both!(
    every_change_leaves_an_entry_without_texts,
    an_address_is_logged_and_shown_without_its_secrets,
    long_values_are_logged_with_their_beginnings_only,
    only_the_first_of_very_many_files_are_logged_and_the_others_counted,
);

async fn every_change_leaves_an_entry_without_texts(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    let id = create(writer, &fixture, "A").await.plugin.id;
    let none = PluginFields::default;
    let secret = "const password = 'hunter2'";
    plugins(catalog)
        .update_source(writer, id, none(), files(&[("a.js", Some(secret))]))
        .await
        .unwrap();
    plugins(catalog)
        .update_source(writer, id, none(), files(&[("a.js", Some(secret))]))
        .await
        .unwrap();
    plugins(catalog)
        .update(writer, id, named("B").fields)
        .await
        .unwrap();
    plugins(catalog)
        .update(writer, id, named("B").fields)
        .await
        .unwrap();
    plugins(catalog).delete(writer, id).await.unwrap();
    let entries = fixture.activity(ActivityScope::Plugin).await;
    let activities: Vec<_> = entries.iter().rev().map(|entry| entry.activity).collect();
    let expected = [
        Activity::Installed,
        Activity::Updated,
        Activity::Updated,
        Activity::Uninstalled,
    ];
    assert_eq!(activities, expected, "an unchanged plugin leaves no entry");
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

async fn an_address_is_logged_and_shown_without_its_secrets(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    let table = [
        (
            "https://a.example/a?private_token=hunter2",
            "https://a.example/a",
        ),
        (
            "https://ann:hunter2@a.example/b?tag=1",
            "https://a.example/b?tag=1",
        ),
    ];
    for (url, shown) in table {
        let new = NewPlugin {
            url: Some(url.to_owned()),
            ..NewPlugin::default()
        };
        let made = plugins(&fixture.catalog).create(writer, new).await.unwrap();
        assert_eq!(made.shown_url().as_deref(), Some(shown));
        assert_eq!(
            made.plugin.url.as_deref(),
            Some(url),
            "it is fetched from there"
        );
        let entries = fixture.activity(ActivityScope::Plugin).await;
        let changes = &entries[0].detail.changes;
        let logged = changes.iter().find(|change| change.field == "url");
        assert_eq!(logged.unwrap().after, shown);
        assert!(!serde_json::to_string(changes).unwrap().contains("hunter2"));
    }
}

async fn long_values_are_logged_with_their_beginnings_only(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, writer) = (&fixture.catalog, writer_in(&fixture, PluginFamily::Plugins));
    let id = create(writer, &fixture, "A").await.plugin.id;
    let long = format!("{}x", "ü".repeat(15_000));
    // Both values begin alike, and differ all the same.
    for end in ["", "y"] {
        let fields = PluginFields {
            description: Patch::Value(Some(format!("{long}{end}"))),
            metrics: Patch::Value(Some(json!([long, end]))),
            ..PluginFields::default()
        };
        plugins(catalog).update(writer, id, fields).await.unwrap();
    }
    let entries = fixture.activity(ActivityScope::Plugin).await;
    for entry in &entries[..2] {
        let fields: Vec<_> = entry
            .detail
            .changes
            .iter()
            .map(|change| change.field.as_str())
            .collect();
        assert_eq!(fields, ["description", "metrics"]);
        let text = serde_json::to_string(&entry.detail).unwrap();
        assert!(text.len() < 5 * 1024, "{} bytes", text.len());
        assert!(text.contains("üü… (30002 bytes)") || text.contains("üü… (30001 bytes)"));
    }
}

async fn only_the_first_of_very_many_files_are_logged_and_the_others_counted(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let (catalog, writer) = (&fixture.catalog, writer_in(&fixture, PluginFamily::Plugins));
    let id = create(writer, &fixture, "A").await.plugin.id;
    let name = |file: usize| format!("{file:03}{}", "ü".repeat(197));
    let change = |file| FileChange {
        name: name(file),
        source: Some("a".to_owned()),
    };
    let changes: Vec<_> = (0..PLUGIN_FILES_MAX).map(change).collect();
    let none = PluginFields::default();
    let written = plugins(catalog)
        .update_source(writer, id, none, changes)
        .await;
    assert_eq!(written.unwrap().files.len(), PLUGIN_FILES_MAX);
    let entries = fixture.activity(ActivityScope::Plugin).await;
    let changes = &entries[0].detail.changes;
    let (last, listed) = changes.split_last().unwrap();
    let names: Vec<_> = listed.iter().map(|change| change.field.clone()).collect();
    let first: Vec<_> = (0..listed.len()).map(name).collect();
    assert_eq!(names, first);
    let others = format!("and {} more", PLUGIN_FILES_MAX - listed.len());
    assert_eq!((&*last.field, &last.after), ("…", &json!(others)));
    let bytes = serde_json::to_string(changes).unwrap().len();
    assert!((30_000..50_000).contains(&bytes), "{bytes} bytes");
}
