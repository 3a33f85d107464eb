//! Configurations of plugins in projects.

use super::{code_of, create, files, foreign, named, writer_in};
use crate::fixture::{ALL, Fixture};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{PluginFamily, PluginFields, PluginSetting, PluginWriter};
use serde_json::{Value, json};

on_both!(
    used_plugins_are_not_listed_as_unused,
    an_organization_sees_the_plugins_it_uses,
    an_organization_whose_global_plugins_others_use_is_not_deleted,
    a_secret_stays_secret_whatever_the_schema_becomes,
    all_values_from_older_schemas_count_as_secrets,
);

const ENABLED: bool = true;

fn setting(enabled: bool) -> PluginSetting {
    PluginSetting {
        enabled,
        position: 1,
        config: json!({"key": "v"}),
    }
}

async fn used_plugins_are_not_listed_as_unused(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id) = (&fixture.catalog, fixture.organization_id);
    let writer = writer_in(&fixture, PluginFamily::Destinations);
    let used = create(writer, &fixture, "Used").await.plugin.id;
    let off = create(writer, &fixture, "Off").await.plugin.id;
    let writer = writer_in(&fixture, PluginFamily::FrontendApps);
    let page = create(writer, &fixture, "Page").await.plugin.id;
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    let project_id = fixture.project_id;
    for (plugin, enabled) in [(used, ENABLED), (off, !ENABLED), (page, ENABLED)] {
        let set = catalog.set_plugin_use(writer, plugin, project_id, setting(enabled));
        set.await.unwrap();
    }
    let unused = catalog
        .list_unused_plugins(id, PluginFamily::Plugins, ALL)
        .await;
    let unused: Vec<_> = unused.unwrap().rows;
    assert_eq!(unused.len(), 1);
    assert_eq!(unused[0].plugin.id, off);
    let exporting = catalog.list_exporting_plugins(id, PluginFamily::Plugins, ALL);
    let exporting = exporting.await.unwrap();
    assert_eq!(exporting.count, 1);
    let config = &exporting.rows[0].config;
    assert_eq!((config.plugin_id, config.enabled), (used, ENABLED));

    let foreign =
        catalog.set_plugin_use(writer, used, fixture.foreign_project_id, setting(ENABLED));
    assert_eq!(code_of(&foreign.await.unwrap_err()), (None, "not_found"));
    let mut list = setting(ENABLED);
    list.config = json!([]);
    let refused = catalog.set_plugin_use(writer, used, project_id, list).await;
    let blamed = (Some("config".to_owned()), "invalid_input");
    assert_eq!(code_of(&refused.unwrap_err()), blamed);
    let again = catalog.set_plugin_use(writer, used, project_id, setting(!ENABLED));
    assert_eq!(again.await.unwrap().id, config.id, "a project uses it once");
}

async fn an_organization_sees_the_plugins_it_uses(database: TestDatabase) {
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
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    let set = catalog.set_plugin_use(writer, id, fixture.project_id, setting(ENABLED));
    set.await.unwrap();
    // Withdrawals of earlier versions left the others' configurations in place.
    let withdrawn = "UPDATE plugins SET is_global = false";
    database.execute(withdrawn).await.unwrap();
    let seen = || async {
        let seen = catalog.plugin(fixture.organization_id, PluginFamily::Plugins, id);
        seen.await.unwrap()
    };
    assert_eq!(seen().await.unwrap().organization_name, "Foreign");
    let refused = [
        catalog.delete_plugin(operator, id).await,
        catalog
            .delete_organization(operator.actor, fixture.foreign_id)
            .await,
    ];
    for refused in refused {
        assert_eq!(code_of(&refused.unwrap_err()), (None, "invalid_input"));
    }
    assert_eq!(seen().await.unwrap().organization_name, "Foreign");
    for is_global in [true, false] {
        let fields = PluginFields {
            is_global: Some(is_global),
            ..PluginFields::default()
        };
        catalog.update_plugin(operator, id, fields).await.unwrap();
    }
    assert_eq!(seen().await, None);
    catalog.delete_plugin(operator, id).await.unwrap();
}

async fn an_organization_whose_global_plugins_others_use_is_not_deleted(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, foreign_id) = (&fixture.catalog, fixture.foreign_id);
    let operator = PluginWriter {
        is_operator: true,
        ..foreign(&fixture)
    };
    let global = |name: &str| {
        let mut new = named(name);
        new.fields.is_global = Some(true);
        new
    };
    let unused = catalog.create_plugin(operator, global("Unused")).await;
    let mut shared = Vec::new();
    for name in ["A", "B", "C", "D"] {
        let made = catalog.create_plugin(operator, global(name)).await.unwrap();
        let id = made.plugin.id;
        for (writer, project_id) in [
            (
                writer_in(&fixture, PluginFamily::Plugins),
                fixture.project_id,
            ),
            (foreign(&fixture), fixture.foreign_project_id),
        ] {
            let set = catalog.set_plugin_use(writer, id, project_id, setting(ENABLED));
            set.await.unwrap();
        }
        shared.push(id);
    }
    // The operator is refused as well.
    let refused = catalog.delete_organization(operator.actor, foreign_id);
    let refused = refused.await.unwrap_err();
    assert_eq!(code_of(&refused), (None, "invalid_input"));
    let said = refused.to_string();
    for needle in ["use 4 plugins", "(A)", "(C), …", "is_global"] {
        assert!(said.contains(needle), "{said}");
    }
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    let uses = || async {
        let page = catalog.list_plugins(fixture.organization_id, PluginFamily::Plugins, ALL);
        page.await.unwrap().count
    };
    assert_eq!(uses().await, 5);
    let local = PluginFields {
        is_global: Some(false),
        ..PluginFields::default()
    };
    for id in shared {
        let still = catalog.delete_organization(operator.actor, foreign_id);
        assert_eq!(code_of(&still.await.unwrap_err()), (None, "invalid_input"));
        let withdrawn = catalog.update_plugin(operator, id, local.clone()).await;
        assert!(!withdrawn.unwrap().plugin.is_global);
    }
    assert!(unused.unwrap().plugin.is_global, "nobody else uses it");
    assert_eq!(uses().await, 1);
    let deleted = catalog.delete_organization(operator.actor, foreign_id);
    deleted.await.unwrap();
    assert_eq!(uses().await, 0);
    create(writer, &fixture, "Own").await;
    let own = catalog.delete_organization(&fixture.actor, fixture.organization_id);
    own.await.unwrap();
}

/// Shown configuration of the only used plugin.
async fn shown(fixture: &Fixture) -> Value {
    let exporting =
        fixture
            .catalog
            .list_exporting_plugins(fixture.organization_id, PluginFamily::Plugins, ALL);
    exporting.await.unwrap().rows[0].shown_config()
}

async fn a_secret_stays_secret_whatever_the_schema_becomes(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    let writer = writer_in(&fixture, PluginFamily::Destinations);
    let id = create(writer, &fixture, "Used").await.plugin.id;
    let schema = |schema: Value| PluginFields {
        config_schema: Some(schema),
        ..PluginFields::default()
    };
    let secret = json!([{"key": "token", "secret": true}, {"key": "url"}]);
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    let changed = catalog.update_plugin(writer, id, schema(secret)).await;
    changed.unwrap();
    let with = |token: &str| PluginSetting {
        config: json!({"token": token, "url": "u"}),
        ..setting(ENABLED)
    };
    let set = catalog.set_plugin_use(writer, id, project_id, with("hunter2"));
    set.await.unwrap();
    let hidden = json!({"token": "********", "url": "u"});
    assert_eq!(shown(&fixture).await, hidden);
    let manifest = r#"{"config": [{"key": "token", "secret": false}]}"#;
    let edits = [
        json!([]),
        json!([{"key": "token", "secret": false}]),
        json!([{"key": "token"}, {"key": "url"}]),
    ];
    for edit in edits {
        let changed = catalog.update_plugin(writer, id, schema(edit)).await;
        changed.unwrap();
        assert_eq!(shown(&fixture).await, hidden);
    }
    let changes = files(&[("plugin.json", Some(manifest))]);
    let written = catalog.update_plugin_source(writer, id, PluginFields::default(), changes);
    written.await.unwrap();
    assert_eq!(shown(&fixture).await, hidden);
    // Not even a new value is shown.
    let set = catalog.set_plugin_use(writer, id, project_id, with("hunter3"));
    set.await.unwrap();
    assert_eq!(shown(&fixture).await, hidden);
    let nothing = json!({"token": "********", "url": "********"});
    for edit in [json!({}), json!("free-form")] {
        let changed = catalog.update_plugin(writer, id, schema(edit)).await;
        changed.unwrap();
        assert_eq!(shown(&fixture).await, nothing, "the schema says nothing");
    }
}

async fn all_values_from_older_schemas_count_as_secrets(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let writer = writer_in(&fixture, PluginFamily::Destinations);
    let id = create(writer, &fixture, "Used").await.plugin.id;
    let fields = PluginFields {
        config_schema: Some(json!([{"key": "key"}])),
        ..PluginFields::default()
    };
    let changed = fixture.catalog.update_plugin(writer, id, fields);
    changed.await.unwrap();
    let set = || {
        fixture
            .catalog
            .set_plugin_use(writer, id, fixture.project_id, setting(ENABLED))
    };
    set().await.unwrap();
    assert_eq!(shown(&fixture).await, json!({"key": "v"}));
    let forget = "UPDATE plugin_configs SET secret_keys = NULL";
    database.execute(forget).await.unwrap();
    assert_eq!(shown(&fixture).await, json!({"key": "********"}));
    set().await.unwrap();
    assert_eq!(shown(&fixture).await, json!({"key": "********"}));
}
