//! How projects use plugins.

use super::{code_of, create, foreign, named, writer};
use crate::fixture::{ALL, Fixture};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Family, PluginFields, PluginSetting, PluginWriter};
use serde_json::json;

on_both!(
    uses_make_plugins_not_unused,
    who_uses_a_plugin_goes_on_seeing_it,
);

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
