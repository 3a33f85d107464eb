//! Rows of earlier versions with names that serde_json reads as markers.

use super::{create, named, plugins, writer_in};
use millrace_catalog::testing::{TestDatabase, nested_markers};
use millrace_catalog::{ActivityScope, PageRequest, Patch};
use millrace_organizations::PluginFamily;
use millrace_organizations::testing::fixture::Fixture;
use serde_json::json;

on_both!(
    reserved_names_in_rows_of_plugins_are_left_out,
    reserved_names_in_entries_of_the_log_are_left_out,
);

/// Object with a marker whose text is no JSON, and another member.
const MARKED: &str = r#"{"$serde_json::private::RawValue":"no JSON","url":"u"}"#;

async fn reserved_names_in_rows_of_plugins_are_left_out(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, here) = (&fixture.catalog, fixture.organization_id);
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    let id = create(writer, &fixture, "A").await.plugin.id;
    let methods = r#"{"methods":["onEvent"],"#;
    let made = plugins(catalog)
        .update(writer, id, {
            let mut fields = named("A").fields;
            fields.capabilities = Patch::Value(json!({"methods": ["onEvent"]}));
            fields
        })
        .await;
    made.unwrap();
    let added = catalog.configure_plugin(id, fixture.project_id, true, json!({}), None);
    added.await.unwrap();
    let deep = nested_markers(200, 120);
    for (table, column, text) in [
        ("plugins", "config_schema", MARKED),
        (
            "plugins",
            "capabilities",
            &*MARKED.replacen('{', methods, 1),
        ),
        ("plugins", "metrics", &*format!("[{MARKED}]")),
        ("plugins", "public_jobs", &*deep),
        ("plugin_configs", "config", MARKED),
    ] {
        let update = format!("UPDATE {table} SET {column} = '{text}'");
        database.execute(&update).await.unwrap();
    }
    let seen = plugins(catalog).get(here, PluginFamily::Plugins, id).await;
    let plugin = seen.unwrap().unwrap().plugin;
    assert_eq!(plugin.config_schema, json!({"url": "u"}));
    let can = json!({"methods": ["onEvent"], "url": "u"});
    assert_eq!(plugin.capabilities, can);
    assert_eq!(plugin.metrics.unwrap(), json!([{"url": "u"}]));
    assert!(!plugin.public_jobs.unwrap().to_string().contains("RawValue"));
    let all = PageRequest {
        limit: 10,
        offset: 0,
    };
    let uses = plugins(catalog).list_exporting(here, PluginFamily::Plugins, all);
    let shown = uses.await.unwrap().rows[0].shown_config();
    assert_eq!(shown, json!({"url": "********"}));
    // A change writes the row anew, without them.
    let changed = plugins(catalog).update(writer, id, named("B").fields).await;
    changed.unwrap();
    let marked = "SELECT CAST(COUNT(*) AS TEXT) FROM plugins WHERE CAST(config_schema AS TEXT) \
         LIKE '%RawValue%'";
    assert_eq!(database.first_column(marked).await.unwrap(), ["0"]);
}

async fn reserved_names_in_entries_of_the_log_are_left_out(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    create(writer, &fixture, "A").await;
    let detail = format!(
        r#"{{"name":"A","changes":[{{"type":"Plugin","action":"changed","field":"metrics",
        "before":{MARKED},"after":[{MARKED}]}}]}}"#
    );
    let update = format!("UPDATE activity_log SET detail = '{detail}'");
    database.execute(&update).await.unwrap();
    let newest = fixture.activity(ActivityScope::Plugin).await.remove(0);
    let change = &newest.detail.changes[0];
    let found = (change.before.clone(), change.after.clone());
    assert_eq!(found, (json!({"url": "u"}), json!([{"url": "u"}])));
}
