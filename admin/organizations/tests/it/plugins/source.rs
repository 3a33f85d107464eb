//! Source of a plugin: capabilities, releases and files.

use super::{code_of, create, files, plugins, writer_in};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Patch, PluginType};
use millrace_organizations::testing::fixture::Fixture;
use millrace_organizations::{NewPlugin, PluginFamily, PluginFields, PluginRelease, PluginWriter};
use serde_json::json;

on_both!(
    the_source_determines_the_capabilities,
    releases_are_installed_and_upgraded,
    only_touched_files_are_written,
    parallel_changes_of_a_source_are_all_kept,
);

fn release(tag: &str, source: &str) -> PluginRelease {
    PluginRelease {
        name: "Filter".to_owned(),
        description: Some("Filters".to_owned()),
        icon: None,
        tag: tag.to_owned(),
        config_schema: json!([{"key": "a"}]),
        files: vec![("index.js".to_owned(), source.to_owned())],
    }
}

async fn the_source_determines_the_capabilities(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let plugins = plugins(catalog);
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    let id = create(writer, &fixture, "Before").await.plugin.id;
    let manifest = r#"{"name": "After", "config": [{"key": "k"}], "main": "lib.js"}"#;
    let main = "export function processEvent(e) { return e }";
    let changes = files(&[
        ("plugin.json", Some(manifest)),
        ("lib.js", Some(main)),
        ("gone", None),
    ]);
    let none = PluginFields::default;
    let written = plugins
        .update_source(writer, id, none(), changes)
        .await
        .unwrap();
    assert_eq!(written.view.plugin.name.as_deref(), Some("After"));
    assert_eq!(written.view.plugin.config_schema, json!([{"key": "k"}]));
    let can = json!({"methods": ["processEvent"], "jobs": [], "scheduled_tasks": []});
    assert_eq!(written.view.plugin.capabilities, can);
    let expected = [("lib.js", main), ("plugin.json", manifest)];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(written.files, expected);
    let family = PluginFamily::Transformations;
    let read = plugins
        .files(fixture.organization_id, family, id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read, written);

    let said = PluginFields {
        capabilities: Patch::Value(json!({"methods": ["onEvent"]})),
        ..none()
    };
    let changed = plugins.update(writer, id, said.clone()).await.unwrap();
    assert_eq!(changed.plugin.capabilities, can, "the source knows better");
    let changes = files(&[("lib.js", None), ("plugin.json", None)]);
    let emptied = plugins
        .update_source(writer, id, none(), changes)
        .await
        .unwrap();
    assert!(emptied.files.is_empty());
    let changed = plugins.update(writer, id, said).await.unwrap();
    assert!(
        changed.plugin.is_destination,
        "there is no source to know better"
    );

    let long = "x".repeat(201);
    for (name, text) in [("", "a"), (&long, "a"), ("plugin.json", "{")] {
        let changes = files(&[("kept.js", Some("a")), (name, Some(text))]);
        let error = plugins
            .update_source(writer, id, none(), changes)
            .await
            .unwrap_err();
        assert_eq!(code_of(&error), (Some(name.to_owned()), "invalid_input"));
    }
    let read = plugins
        .files(fixture.organization_id, PluginFamily::Plugins, id)
        .await
        .unwrap();
    assert!(
        read.unwrap().files.is_empty(),
        "a refused change changes nothing"
    );
}

async fn releases_are_installed_and_upgraded(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    let new = NewPlugin {
        fields: PluginFields {
            plugin_type: Patch::Value(Some(PluginType::Repository)),
            name: Patch::Value(Some("Mine".to_owned())),
            ..PluginFields::default()
        },
        url: Some("https://plugins.example/filter".to_owned()),
        release: Some(release("1.0", "exports.processEvent = (e) => e")),
    };
    let made = plugins(catalog).create(writer, new).await.unwrap().plugin;
    assert_eq!(
        made.name.as_deref(),
        Some("Mine"),
        "what the client says goes first"
    );
    assert_eq!(
        (made.tag.as_deref(), made.latest_tag.as_deref()),
        (Some("1.0"), Some("1.0"))
    );
    assert!(made.is_transformation);
    let checked = plugins(catalog)
        .set_latest_tag(writer, made.id, Some("2.0".to_owned()))
        .await;
    let checked = checked.unwrap().plugin;
    assert_eq!(
        (checked.tag.as_deref(), checked.latest_tag.as_deref()),
        (Some("1.0"), Some("2.0"))
    );
    let newer = Some(release("2.0", "exports.onEvent = () => {}"));
    let none = PluginFields::default();
    let upgraded = plugins(catalog)
        .upgrade(writer, made.id, none.clone(), newer)
        .await
        .unwrap();
    assert_eq!(upgraded.plugin.tag.as_deref(), Some("2.0"));
    assert!(upgraded.plugin.is_destination && !upgraded.plugin.is_transformation);
    let same = plugins(catalog)
        .upgrade(writer, made.id, none, None)
        .await
        .unwrap();
    assert_eq!(same, upgraded, "without a release there is nothing to do");
}

async fn only_touched_files_are_written(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    let id = create(writer, &fixture, "A").await.plugin.id;
    let none = PluginFields::default;
    let (catalog, statements) = fixture.catalog.counted();
    let first = files(&[("a", Some("1")), ("b", Some("1")), ("c", Some("1"))]);
    let table = [
        (first.clone(), 3, 0),
        (first, 0, 0),
        (files(&[("a", Some("2")), ("b", None), ("d", None)]), 1, 1),
    ];
    for (changes, inserts, deletes) in table {
        drop(statements.take());
        let changed = plugins(&catalog).update_source(writer, id, none(), changes);
        changed.await.unwrap();
        let made = statements.take();
        let count = |start: &str| {
            let start = format!("{start} \"plugin_source_files\"");
            made.iter().filter(|made| made.starts_with(&start)).count()
        };
        assert_eq!(
            (count("INSERT INTO"), count("DELETE FROM")),
            (inserts, deletes),
            "{made:?}"
        );
    }
    let newer = Some(release("2.0", "exports.onEvent = () => {}"));
    plugins(&catalog)
        .upgrade(writer, id, none(), newer)
        .await
        .unwrap();
    let read = plugins(&catalog).files(fixture.organization_id, PluginFamily::Plugins, id);
    let names: Vec<_> = read.await.unwrap().unwrap().files;
    assert_eq!(names.len(), 1, "a release replaces the source: {names:?}");
}

async fn parallel_changes_of_a_source_are_all_kept(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    let id = create(writer, &fixture, "A").await.plugin.id;
    let changes = (0..8).map(|file| {
        let (catalog, actor) = (fixture.catalog.clone(), fixture.actor.clone());
        let organization_id = fixture.organization_id;
        tokio::spawn(async move {
            let writer = PluginWriter {
                actor: &actor,
                organization_id,
                family: PluginFamily::Plugins,
                is_operator: false,
            };
            let changes = files(&[(&format!("{file}.js"), Some("a"))]);
            let changed =
                plugins(&catalog).update_source(writer, id, PluginFields::default(), changes);
            changed.await.map(drop)
        })
    });
    let changes: Vec<_> = changes.collect();
    for changed in changes {
        changed.await.unwrap().unwrap();
    }
    let read = plugins(&fixture.catalog).files(fixture.organization_id, PluginFamily::Plugins, id);
    assert_eq!(read.await.unwrap().unwrap().files.len(), 8);
}
