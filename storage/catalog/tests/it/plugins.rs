//! Plugins: who sees and changes them, and what their source says.

use crate::fixture::{ALL, Fixture};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Activity, ActivityScope, ChangeError, Family, FileChange, NewPlugin, PageRequest, PluginFields,
    PluginRelease, PluginSetting, PluginType, PluginWriter, SeenPlugin,
};
use serde_json::json;

on_both!(
    a_plugin_is_seen_in_the_views_of_its_capabilities,
    plugins_are_paged_oldest_first_and_stay_in_their_organization,
    global_plugins_are_seen_by_all_and_changed_by_the_operator,
    bad_fields_are_blamed,
    the_source_decides_what_a_plugin_can_do,
    releases_are_installed_and_upgraded,
    uses_make_plugins_not_unused,
    who_uses_a_plugin_goes_on_seeing_it,
    every_change_leaves_an_entry_without_texts,
);

fn writer(fixture: &Fixture, family: Family) -> PluginWriter<'_> {
    PluginWriter {
        actor: &fixture.actor,
        organization_id: fixture.organization_id,
        family,
        is_operator: false,
    }
}

fn foreign(fixture: &Fixture) -> PluginWriter<'_> {
    PluginWriter {
        organization_id: fixture.foreign_id,
        ..writer(fixture, Family::Plugins)
    }
}

fn named(name: &str) -> NewPlugin {
    let fields = PluginFields {
        name: Some(Some(name.to_owned())),
        ..PluginFields::default()
    };
    NewPlugin {
        fields,
        ..NewPlugin::default()
    }
}

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

fn files(changes: &[(&str, Option<&str>)]) -> Vec<FileChange> {
    let change = |(name, source): &(&str, Option<&str>)| FileChange {
        name: (*name).to_owned(),
        source: source.map(str::to_owned),
    };
    changes.iter().map(change).collect()
}

async fn create(writer: PluginWriter<'_>, fixture: &Fixture, name: &str) -> SeenPlugin {
    fixture
        .catalog
        .create_plugin(writer, named(name))
        .await
        .unwrap()
}

async fn names(fixture: &Fixture, family: Family) -> Vec<String> {
    let page = fixture
        .catalog
        .list_plugins(fixture.organization_id, family, ALL)
        .await
        .unwrap();
    assert_eq!(page.count, page.rows.len() as u64);
    page.rows
        .into_iter()
        .filter_map(|seen| seen.plugin.name)
        .collect()
}

fn code_of(error: &ChangeError) -> (Option<String>, &'static str) {
    match error.violation() {
        Some(violation) => (violation.field, violation.code),
        None if matches!(error, ChangeError::NotFound { .. }) => (None, "not_found"),
        None => (None, "forbidden"),
    }
}

async fn a_plugin_is_seen_in_the_views_of_its_capabilities(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    for family in Family::ALL {
        create(writer(&fixture, family), &fixture, family.segment()).await;
    }
    for family in Family::ALL {
        let seen = names(&fixture, family).await;
        match family {
            Family::Plugins => assert_eq!(seen.len(), 5),
            // Those that can do nothing yet are for pages, as far as anyone knows.
            Family::FrontendApps => assert_eq!(seen, ["plugins", "pipeline_frontend_apps"]),
            _ => assert_eq!(seen, [family.segment()]),
        }
    }
    let mut new = named("both");
    let capabilities = json!({"methods": ["processEvent", "onEvent"]});
    new.fields.capabilities = Some(capabilities.clone());
    let both = fixture
        .catalog
        .create_plugin(writer(&fixture, Family::Plugins), new)
        .await
        .unwrap();
    assert_eq!(both.plugin.capabilities, capabilities);
    let id = both.plugin.id;
    for (family, is_seen) in [
        (Family::Destinations, true),
        (Family::Transformations, true),
        (Family::ImportApps, false),
        (Family::FrontendApps, false),
    ] {
        let found = fixture
            .catalog
            .plugin(fixture.organization_id, family, id)
            .await
            .unwrap();
        assert_eq!(found.is_some(), is_seen, "{family:?}");
    }
    // A change may take it out of the view that it was made in; it is answered all the same.
    let fields = PluginFields {
        capabilities: Some(json!({"methods": ["onEvent"]})),
        ..PluginFields::default()
    };
    let place = writer(&fixture, Family::Transformations);
    let changed = fixture
        .catalog
        .update_plugin(place, id, fields.clone())
        .await
        .unwrap();
    assert!(!changed.plugin.is_transformation);
    let error = fixture
        .catalog
        .update_plugin(place, id, fields)
        .await
        .unwrap_err();
    assert_eq!(code_of(&error), (None, "not_found"));
}

async fn plugins_are_paged_oldest_first_and_stay_in_their_organization(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    for name in ["A", "B", "C"] {
        create(writer(&fixture, Family::Plugins), &fixture, name).await;
    }
    let theirs = create(foreign(&fixture), &fixture, "Theirs").await;
    assert_eq!(theirs.organization_name, "Foreign");
    assert_eq!(names(&fixture, Family::Plugins).await, ["A", "B", "C"]);
    let page = PageRequest {
        limit: 2,
        offset: 1,
    };
    let part = catalog
        .list_plugins(fixture.organization_id, Family::Plugins, page)
        .await
        .unwrap();
    let part_names: Vec<_> = part
        .rows
        .iter()
        .filter_map(|seen| seen.plugin.name.as_deref())
        .collect();
    assert_eq!((part.count, &part_names[..]), (3, &["B", "C"][..]));
    assert_eq!(part.rows[0].organization_name, "Default organization");
    let mine = writer(&fixture, Family::Plugins);
    let id = theirs.plugin.id;
    assert!(
        catalog
            .plugin(fixture.organization_id, Family::Plugins, id)
            .await
            .unwrap()
            .is_none()
    );
    let refused = [
        catalog
            .update_plugin(mine, id, PluginFields::default())
            .await
            .unwrap_err(),
        catalog.delete_plugin(mine, id).await.unwrap_err(),
        catalog
            .update_plugin_source(mine, id, PluginFields::default(), Vec::new())
            .await
            .unwrap_err(),
    ];
    for error in refused {
        assert_eq!(code_of(&error), (None, "not_found"));
    }
    catalog.delete_plugin(foreign(&fixture), id).await.unwrap();
    let error = catalog
        .delete_plugin(foreign(&fixture), id)
        .await
        .unwrap_err();
    assert_eq!(code_of(&error), (None, "not_found"));
}

async fn global_plugins_are_seen_by_all_and_changed_by_the_operator(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let operator = PluginWriter {
        is_operator: true,
        ..foreign(&fixture)
    };
    let mut new = named("For all");
    new.fields.is_global = Some(true);
    let error = catalog
        .create_plugin(foreign(&fixture), new.clone())
        .await
        .unwrap_err();
    assert_eq!(code_of(&error), (None, "forbidden"));
    let id = catalog
        .create_plugin(operator, new)
        .await
        .unwrap()
        .plugin
        .id;
    assert_eq!(names(&fixture, Family::Plugins).await, ["For all"]);

    let rename = named("Renamed").fields;
    let local = PluginFields {
        is_global: Some(false),
        ..PluginFields::default()
    };
    let mine = PluginWriter {
        is_operator: true,
        ..writer(&fixture, Family::Plugins)
    };
    for (who, fields) in [
        (mine, rename.clone()),
        (foreign(&fixture), rename.clone()),
        (foreign(&fixture), local.clone()),
    ] {
        let error = catalog.update_plugin(who, id, fields).await.unwrap_err();
        assert_eq!(code_of(&error), (None, "forbidden"));
    }
    let error = catalog.delete_plugin(operator, id).await.unwrap_err();
    assert_eq!(code_of(&error), (None, "invalid_input"));
    let seen = catalog
        .set_plugin_latest_tag(mine, id, Some("2".to_owned()))
        .await
        .unwrap();
    assert_eq!(seen.plugin.latest_tag.as_deref(), Some("2"));
    let kept = catalog
        .plugin(fixture.foreign_id, Family::Plugins, id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(kept.plugin.latest_tag, None, "it is not ours to keep");
    catalog
        .update_plugin(operator, id, local.clone())
        .await
        .unwrap();
    assert!(names(&fixture, Family::Plugins).await.is_empty());
    // Saying what is so already needs no power.
    catalog
        .update_plugin(foreign(&fixture), id, local)
        .await
        .unwrap();
    catalog.delete_plugin(foreign(&fixture), id).await.unwrap();
}

async fn bad_fields_are_blamed(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let long = |chars: usize| Some(Some("ü".repeat(chars)));
    let with = |fields: PluginFields| NewPlugin {
        fields,
        ..NewPlugin::default()
    };
    let at = |url: &str| NewPlugin {
        url: Some(url.to_owned()),
        ..NewPlugin::default()
    };
    let taken = "https://github.com/a/b";
    let place = writer(&fixture, Family::Plugins);
    catalog.create_plugin(place, at(taken)).await.unwrap();
    catalog
        .create_plugin(foreign(&fixture), at(taken))
        .await
        .unwrap();
    let none = PluginFields::default;
    let table = [
        (
            with(PluginFields {
                name: long(201),
                ..none()
            }),
            "name",
            "max_length",
        ),
        (
            with(PluginFields {
                tag: long(201),
                ..none()
            }),
            "tag",
            "max_length",
        ),
        (
            with(PluginFields {
                icon: long(801),
                ..none()
            }),
            "icon",
            "max_length",
        ),
        (
            at(&format!("https://a.example/{}", "x".repeat(800))),
            "url",
            "max_length",
        ),
        (at("ftp://a.example/"), "url", "invalid_input"),
        (at("nothing"), "url", "invalid_input"),
        (at(taken), "url", "unique"),
    ];
    for (new, field, code) in table {
        let error = catalog.create_plugin(place, new).await.unwrap_err();
        assert_eq!(code_of(&error), (Some(field.to_owned()), code), "{error}");
    }
    let most = with(PluginFields {
        name: long(200),
        icon: long(800),
        ..none()
    });
    catalog.create_plugin(place, most).await.unwrap();
}

async fn the_source_decides_what_a_plugin_can_do(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let place = writer(&fixture, Family::Plugins);
    let id = create(place, &fixture, "Before").await.plugin.id;
    let manifest = r#"{"name": "After", "config": [{"key": "k"}], "main": "lib.js"}"#;
    let main = "export function processEvent(e) { return e }";
    let changes = files(&[
        ("plugin.json", Some(manifest)),
        ("lib.js", Some(main)),
        ("gone", None),
    ]);
    let none = PluginFields::default;
    let written = catalog
        .update_plugin_source(place, id, none(), changes)
        .await
        .unwrap();
    assert_eq!(written.seen.plugin.name.as_deref(), Some("After"));
    assert_eq!(written.seen.plugin.config_schema, json!([{"key": "k"}]));
    let can = json!({"methods": ["processEvent"], "jobs": [], "scheduled_tasks": []});
    assert_eq!(written.seen.plugin.capabilities, can);
    let expected = [("lib.js", main), ("plugin.json", manifest)];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(written.files, expected);
    let family = Family::Transformations;
    let read = catalog
        .plugin_files(fixture.organization_id, family, id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read, written);

    let said = PluginFields {
        capabilities: Some(json!({"methods": ["onEvent"]})),
        ..none()
    };
    let changed = catalog
        .update_plugin(place, id, said.clone())
        .await
        .unwrap();
    assert_eq!(changed.plugin.capabilities, can, "the source knows better");
    let changes = files(&[("lib.js", None), ("plugin.json", None)]);
    let emptied = catalog
        .update_plugin_source(place, id, none(), changes)
        .await
        .unwrap();
    assert!(emptied.files.is_empty());
    let changed = catalog.update_plugin(place, id, said).await.unwrap();
    assert!(
        changed.plugin.is_destination,
        "there is no source to know better"
    );

    let long = "x".repeat(201);
    for (name, text) in [("", "a"), (&long, "a"), ("plugin.json", "{")] {
        let changes = files(&[("kept.js", Some("a")), (name, Some(text))]);
        let error = catalog
            .update_plugin_source(place, id, none(), changes)
            .await
            .unwrap_err();
        assert_eq!(code_of(&error), (Some(name.to_owned()), "invalid_input"));
    }
    let read = catalog
        .plugin_files(fixture.organization_id, Family::Plugins, id)
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
    let place = writer(&fixture, Family::Plugins);
    let new = NewPlugin {
        fields: PluginFields {
            plugin_type: Some(Some(PluginType::Repository)),
            name: Some(Some("Mine".to_owned())),
            ..PluginFields::default()
        },
        url: Some("https://plugins.example/filter".to_owned()),
        release: Some(release("1.0", "exports.processEvent = (e) => e")),
    };
    let made = catalog.create_plugin(place, new).await.unwrap().plugin;
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
    let checked = catalog
        .set_plugin_latest_tag(place, made.id, Some("2.0".to_owned()))
        .await;
    let checked = checked.unwrap().plugin;
    assert_eq!(
        (checked.tag.as_deref(), checked.latest_tag.as_deref()),
        (Some("1.0"), Some("2.0"))
    );
    let newer = Some(release("2.0", "exports.onEvent = () => {}"));
    let none = PluginFields::default();
    let upgraded = catalog
        .upgrade_plugin(place, made.id, none.clone(), newer)
        .await
        .unwrap();
    assert_eq!(upgraded.plugin.tag.as_deref(), Some("2.0"));
    assert!(upgraded.plugin.is_destination && !upgraded.plugin.is_transformation);
    let same = catalog
        .upgrade_plugin(place, made.id, none, None)
        .await
        .unwrap();
    assert_eq!(same, upgraded, "without a release there is nothing to do");
}

const ENABLED: bool = true;

fn setting(enabled: bool) -> PluginSetting {
    PluginSetting {
        enabled,
        position: 1,
        config: json!({"key": "v"}),
    }
}

async fn uses_make_plugins_not_unused(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id) = (&fixture.catalog, fixture.organization_id);
    let place = writer(&fixture, Family::Destinations);
    let used = create(place, &fixture, "Used").await.plugin.id;
    let off = create(place, &fixture, "Off").await.plugin.id;
    let place = writer(&fixture, Family::FrontendApps);
    let page = create(place, &fixture, "Page").await.plugin.id;
    let place = writer(&fixture, Family::Plugins);
    let team_id = fixture.team_id;
    for (plugin, enabled) in [(used, ENABLED), (off, !ENABLED), (page, ENABLED)] {
        let set = catalog.set_plugin_use(place, plugin, team_id, setting(enabled));
        set.await.unwrap();
    }
    let unused = catalog.list_unused_plugins(id, Family::Plugins, ALL).await;
    let unused: Vec<_> = unused.unwrap().rows;
    assert_eq!(unused.len(), 1);
    assert_eq!(unused[0].plugin.id, off);
    let exporting = catalog.list_exporting_plugins(id, Family::Plugins, ALL);
    let exporting = exporting.await.unwrap();
    assert_eq!(exporting.count, 1);
    let config = &exporting.rows[0].config;
    assert_eq!((config.plugin_id, config.enabled), (used, ENABLED));

    let foreign = catalog.set_plugin_use(place, used, fixture.foreign_team_id, setting(ENABLED));
    assert_eq!(code_of(&foreign.await.unwrap_err()), (None, "not_found"));
    let mut list = setting(ENABLED);
    list.config = json!([]);
    let refused = catalog.set_plugin_use(place, used, team_id, list).await;
    let blamed = (Some("config".to_owned()), "invalid_input");
    assert_eq!(code_of(&refused.unwrap_err()), blamed);
    let again = catalog.set_plugin_use(place, used, team_id, setting(!ENABLED));
    assert_eq!(again.await.unwrap().id, config.id, "a project uses it once");
}

async fn who_uses_a_plugin_goes_on_seeing_it(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let operator = PluginWriter {
        is_operator: true,
        ..foreign(&fixture)
    };
    let mut new = named("Once global");
    new.fields.is_global = Some(true);
    let made = catalog.create_plugin(operator, new).await.unwrap();
    let id = made.plugin.id;
    let place = writer(&fixture, Family::Plugins);
    let set = catalog.set_plugin_use(place, id, fixture.team_id, setting(ENABLED));
    set.await.unwrap();
    let local = PluginFields {
        is_global: Some(false),
        ..PluginFields::default()
    };
    catalog.update_plugin(operator, id, local).await.unwrap();
    let seen = catalog.plugin(fixture.organization_id, Family::Plugins, id);
    assert_eq!(seen.await.unwrap().unwrap().organization_name, "Foreign");
}

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
