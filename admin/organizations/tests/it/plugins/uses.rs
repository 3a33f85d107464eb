//! Configurations of plugins in projects.

use super::{code_of, create, files, foreign, named, plugins, writer_in};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{ChangeError, Cleanup, Patch, ProjectId};
use millrace_organizations::testing::fixture::{ALL, Fixture};
use millrace_organizations::testing::set_features;
use millrace_organizations::{Organizations, PluginFamily, PluginFields, PluginWriter};
use serde_json::{Value, json};

on_both!(
    used_plugins_are_not_listed_as_unused,
    an_organization_whose_global_plugins_others_use_is_not_deleted,
    what_an_error_asks_for_is_possible_without_the_feature,
    a_secret_stays_secret_whatever_the_schema_becomes,
    all_values_from_older_schemas_count_as_secrets,
);

const ENABLED: bool = true;

async fn configure(fixture: &Fixture, plugin: i64, project_id: ProjectId, enabled: bool) -> i64 {
    let values = json!({ "key": "v" });
    let added = fixture
        .catalog
        .configure_plugin(plugin, project_id, enabled, values, None);
    added.await.unwrap()
}

/// Removes all that is marked for it.
async fn clean_up(fixture: &Fixture) {
    while Cleanup::new(&fixture.catalog)
        .delete_leftovers()
        .await
        .unwrap()
        > 0
    {}
}

async fn used_plugins_are_not_listed_as_unused(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id) = (&fixture.catalog, fixture.organization_id);
    let writer = writer_in(&fixture, PluginFamily::Destinations);
    let used = create(writer, &fixture, "Used").await.plugin.id;
    let off = create(writer, &fixture, "Off").await.plugin.id;
    let writer = writer_in(&fixture, PluginFamily::FrontendApps);
    let page = create(writer, &fixture, "Page").await.plugin.id;
    for (plugin, enabled) in [(used, ENABLED), (off, !ENABLED), (page, ENABLED)] {
        configure(&fixture, plugin, fixture.project_id, enabled).await;
    }
    let unused = plugins(catalog)
        .list_unused(id, PluginFamily::Plugins, ALL)
        .await;
    let unused: Vec<_> = unused.unwrap().rows;
    assert_eq!(unused.len(), 1);
    assert_eq!(unused[0].plugin.id, off);
    let exporting = plugins(catalog).list_exporting(id, PluginFamily::Plugins, ALL);
    let exporting = exporting.await.unwrap();
    assert_eq!(exporting.count, 1);
    let config = &exporting.rows[0].config;
    assert_eq!((config.plugin_id, config.enabled), (used, ENABLED));
}

fn operator(fixture: &Fixture) -> PluginWriter<'_> {
    PluginWriter {
        is_operator: true,
        ..foreign(fixture)
    }
}

/// Plugin of the other organization that all see; one of the destinations or none.
async fn global(fixture: &Fixture, name: &str, family: PluginFamily) -> i64 {
    let mut new = named(name);
    new.fields.is_global = Patch::Value(true);
    let writer = PluginWriter {
        family,
        ..operator(fixture)
    };
    let made = plugins(&fixture.catalog).create(writer, new).await;
    made.unwrap().plugin.id
}

fn local() -> PluginFields {
    PluginFields {
        is_global: Patch::Value(false),
        ..PluginFields::default()
    }
}

async fn an_organization_whose_global_plugins_others_use_is_not_deleted(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, foreign_id) = (&fixture.catalog, fixture.foreign_id);
    let everything = PluginFamily::Plugins;
    let unused = global(&fixture, "Unused", everything).await;
    let mut shared = Vec::new();
    for name in ["A", "B", "C", "D"] {
        let id = global(&fixture, name, everything).await;
        for project_id in [fixture.project_id, fixture.foreign_project_id] {
            configure(&fixture, id, project_id, ENABLED).await;
        }
        shared.push(id);
    }
    // The operator is refused as well.
    let delete = || Organizations::new(catalog).delete(operator(&fixture).actor, foreign_id);
    let refused = delete().await.unwrap_err();
    assert_eq!(code_of(&refused), (None, "invalid_input"));
    let said = refused.to_string();
    for needle in ["use 4 plugins", "(A)", "(C), …", "is_global"] {
        assert!(said.contains(needle), "{said}");
    }
    let seen = || async {
        let page = plugins(catalog).list(fixture.organization_id, everything, ALL);
        page.await.unwrap().count
    };
    assert_eq!(seen().await, 5);
    for id in shared {
        assert_eq!(
            code_of(&delete().await.unwrap_err()),
            (None, "invalid_input")
        );
        let withdrawn = plugins(catalog)
            .update(operator(&fixture), id, local())
            .await;
        assert!(!withdrawn.unwrap().plugin.is_global);
    }
    // Gone for the others at once; their configurations follow.
    assert_eq!(seen().await, 1);
    let refused = delete().await.unwrap_err();
    assert!(
        matches!(refused, ChangeError::Unavailable(_)),
        "{refused:?}"
    );
    clean_up(&fixture).await;
    delete().await.unwrap();
    assert_eq!(seen().await, 0);
    let gone = plugins(catalog).get(fixture.organization_id, everything, unused);
    assert_eq!(gone.await.unwrap(), None, "nobody else used it");
    let writer = writer_in(&fixture, everything);
    create(writer, &fixture, "Own").await;
    let own = Organizations::new(catalog).delete(&fixture.actor, fixture.organization_id);
    own.await.unwrap();
}

/// A destination can be made global only with the feature of pipelines; none of the steps that the
/// errors ask for needs it.
async fn what_an_error_asks_for_is_possible_without_the_feature(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, foreign_id) = (&fixture.catalog, fixture.foreign_id);
    let id = global(&fixture, "Destination", PluginFamily::Destinations).await;
    configure(&fixture, id, fixture.project_id, ENABLED).await;
    let actor = operator(&fixture).actor;
    let off = ["data_pipelines".to_owned()];
    let taken = set_features(catalog, actor, foreign_id, &[], &off);
    taken.await.unwrap();
    let asks = |refused: Result<(), ChangeError>| {
        let refused = refused.unwrap_err();
        let said = refused.to_string();
        assert_eq!(code_of(&refused), (None, "invalid_input"), "{said}");
        assert!(said.contains("set is_global to false first"), "{said}");
        assert!(!said.contains("true"), "{said}");
    };
    asks(plugins(catalog).delete(operator(&fixture), id).await);
    asks(Organizations::new(catalog).delete(actor, foreign_id).await);
    let withdrawn = plugins(catalog)
        .update(operator(&fixture), id, local())
        .await;
    withdrawn.unwrap();
    clean_up(&fixture).await;
    plugins(catalog)
        .delete(foreign(&fixture), id)
        .await
        .unwrap();
    let deleted = Organizations::new(catalog).delete(actor, foreign_id).await;
    deleted.unwrap();
}

/// Shown configuration of the only used plugin.
async fn shown(fixture: &Fixture) -> Value {
    let exporting = plugins(&fixture.catalog).list_exporting(
        fixture.organization_id,
        PluginFamily::Plugins,
        ALL,
    );
    exporting.await.unwrap().rows[0].shown_config()
}

async fn a_secret_stays_secret_whatever_the_schema_becomes(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    let writer = writer_in(&fixture, PluginFamily::Destinations);
    let id = create(writer, &fixture, "Used").await.plugin.id;
    let schema = |schema: Value| PluginFields {
        config_schema: Patch::Value(schema),
        ..PluginFields::default()
    };
    let secret = json!([{"key": "token", "secret": true}, {"key": "url"}]);
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    let changed = plugins(catalog).update(writer, id, schema(secret)).await;
    changed.unwrap();
    let values = json!({"token": "hunter2", "url": "u"});
    let added = catalog.configure_plugin(id, project_id, ENABLED, values, Some(&["token"]));
    added.await.unwrap();
    let hidden = json!({"token": "********", "url": "u"});
    assert_eq!(shown(&fixture).await, hidden);
    let manifest = r#"{"config": [{"key": "token", "secret": false}]}"#;
    let edits = [
        json!([]),
        json!([{"key": "token", "secret": false}]),
        json!([{"key": "token"}, {"key": "url"}]),
    ];
    for edit in edits {
        let changed = plugins(catalog).update(writer, id, schema(edit)).await;
        changed.unwrap();
        assert_eq!(shown(&fixture).await, hidden);
    }
    let changes = files(&[("plugin.json", Some(manifest))]);
    let written = plugins(catalog).update_source(writer, id, PluginFields::default(), changes);
    written.await.unwrap();
    assert_eq!(shown(&fixture).await, hidden);
    let nothing = json!({"token": "********", "url": "********"});
    for edit in [json!({}), json!("free-form")] {
        let changed = plugins(catalog).update(writer, id, schema(edit)).await;
        changed.unwrap();
        assert_eq!(shown(&fixture).await, nothing, "the schema says nothing");
    }
}

async fn all_values_from_older_schemas_count_as_secrets(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let writer = writer_in(&fixture, PluginFamily::Destinations);
    let id = create(writer, &fixture, "Used").await.plugin.id;
    let fields = PluginFields {
        config_schema: Patch::Value(json!([{"key": "key"}])),
        ..PluginFields::default()
    };
    let changed = plugins(&fixture.catalog).update(writer, id, fields);
    changed.await.unwrap();
    let (project_id, values) = (fixture.project_id, json!({"key": "v"}));
    let added = fixture
        .catalog
        .configure_plugin(id, project_id, ENABLED, values, Some(&[]));
    added.await.unwrap();
    assert_eq!(shown(&fixture).await, json!({"key": "v"}));
    let forget = "UPDATE plugin_configs SET secret_keys = NULL";
    database.execute(forget).await.unwrap();
    assert_eq!(shown(&fixture).await, json!({"key": "********"}));
}
