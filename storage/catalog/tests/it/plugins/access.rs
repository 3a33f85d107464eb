//! Permissions to write plugins, as they are at the moment of writing.

use super::{code_of, create, files, named, writer_in};
use crate::fixture::Fixture;
use crate::test_env::actor;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Actor, ChangeError, NewPlugin, OrganizationChange, PluginFamily, PluginFields, PluginWriter,
};
use serde_json::json;

on_both!(
    a_writer_who_lost_access_meanwhile_is_refused,
    without_the_feature_no_family_creates_or_changes_a_destination_or_a_transformation,
);

/// Outcome of every kind of write; the last one only looks for a newer version.
async fn outcomes(
    fixture: &Fixture,
    who: &Actor,
    id: i64,
) -> [(&'static str, Result<(), ChangeError>); 6] {
    let catalog = &fixture.catalog;
    let writer = PluginWriter {
        actor: who,
        ..writer_in(fixture, PluginFamily::Plugins)
    };
    let fields = || named("B").fields;
    let changes = files(&[("a.js", Some("a"))]);
    let tag = Some("2".to_owned());
    let none = PluginFields::default();
    let created = catalog.create_plugin(writer, named("A")).await;
    let updated = catalog.update_plugin(writer, id, fields()).await;
    let written = catalog
        .update_plugin_source(writer, id, none, changes)
        .await;
    let upgraded = catalog.upgrade_plugin(writer, id, fields(), None).await;
    let deleted = match &created {
        // Later calls still need the other plugins.
        Ok(made) => catalog.delete_plugin(writer, made.plugin.id).await,
        Err(_) => catalog.delete_plugin(writer, id).await,
    };
    let looked = catalog.set_plugin_latest_tag(writer, id, tag).await;
    [
        ("create", created.map(drop)),
        ("update", updated.map(drop)),
        ("source", written.map(drop)),
        ("upgrade", upgraded.map(drop)),
        ("delete", deleted),
        ("look", looked.map(drop)),
    ]
}

async fn a_writer_who_lost_access_meanwhile_is_refused(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, organization_id) = (&fixture.catalog, fixture.organization_id);
    let id = create(writer_in(&fixture, PluginFamily::Plugins), &fixture, "A").await;
    let id = id.plugin.id;
    let mia = fixture.member().await;
    for (what, done) in outcomes(&fixture, &actor(&mia), id).await {
        assert!(done.is_ok(), "{what}: {done:?}");
    }

    let off = OrganizationChange {
        members_can_write_pipelines: Some(false),
        ..OrganizationChange::default()
    };
    let changed = catalog.update_organization(&fixture.actor, organization_id, off);
    changed.await.unwrap();
    for (what, done) in outcomes(&fixture, &actor(&mia), id).await {
        match done {
            Ok(()) => assert_eq!(what, "look"),
            Err(error) => assert_eq!(code_of(&error), (None, "forbidden"), "{what}"),
        }
    }
    for (what, done) in outcomes(&fixture, &fixture.actor, id).await {
        assert!(done.is_ok(), "{what}: {done:?}");
    }

    let removed = catalog.remove_member(&fixture.actor, organization_id, mia.uuid);
    removed.await.unwrap();
    for (what, done) in outcomes(&fixture, &actor(&mia), id).await {
        assert_eq!(code_of(&done.unwrap_err()), (None, "forbidden"), "{what}");
    }

    let deleted = catalog.delete_organization(&fixture.actor, organization_id);
    deleted.await.unwrap();
    for who in [&fixture.actor, &actor(&mia)] {
        for (what, done) in outcomes(&fixture, who, id).await {
            assert_eq!(code_of(&done.unwrap_err()), (None, "not_found"), "{what}");
        }
    }
}

async fn without_the_feature_no_family_creates_or_changes_a_destination_or_a_transformation(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let (catalog, organization_id) = (&fixture.catalog, fixture.organization_id);
    let writer = |family| PluginWriter {
        is_operator: true,
        ..writer_in(&fixture, family)
    };
    let can = |method: &str| PluginFields {
        capabilities: Some(json!({ "methods": [method] })),
        ..PluginFields::default()
    };
    let makes = |fields: PluginFields| NewPlugin {
        fields,
        ..NewPlugin::default()
    };
    let of_before = PluginFields {
        is_global: Some(true),
        ..can("onEvent")
    };
    let before = catalog.create_plugin(writer(PluginFamily::Plugins), makes(of_before));
    let before = before.await.unwrap().plugin.id;
    let off = ["data_pipelines".to_owned()];
    let taken = catalog.set_organization_features(&fixture.actor, organization_id, &[], &off);
    taken.await.unwrap();
    let is_refused = |done: Result<(), ChangeError>, case: &str| {
        let refused = matches!(done, Err(ChangeError::FeatureMissing("data_pipelines")));
        assert!(refused, "{case}: {done:?}");
    };
    for family in PluginFamily::ALL {
        let harmless = create(writer(family), &fixture, "Harmless");
        if matches!(
            family,
            PluginFamily::Destinations | PluginFamily::Transformations
        ) {
            let done = catalog.create_plugin(writer(family), named("A")).await;
            is_refused(done.map(drop), family.segment());
            continue;
        }
        let id = harmless.await.plugin.id;
        for method in ["onEvent", "composeWebhook", "processEvent"] {
            let case = format!("{} {method}", family.segment());
            let made = catalog.create_plugin(writer(family), makes(can(method)));
            is_refused(made.await.map(drop), &format!("create {case}"));
            let changed = catalog.update_plugin(writer(family), id, can(method));
            is_refused(changed.await.map(drop), &format!("update {case}"));
            let upgraded = catalog.upgrade_plugin(writer(family), id, can(method), None);
            is_refused(upgraded.await.map(drop), &format!("upgrade {case}"));
            let main = format!("export function {method}() {{}}");
            let changes = files(&[("index.js", Some(&main))]);
            let none = PluginFields::default();
            let written = catalog.update_plugin_source(writer(family), id, none, changes);
            is_refused(written.await.map(drop), &format!("source {case}"));
        }
        let renamed = catalog.update_plugin(writer(family), id, named("B").fields);
        renamed.await.unwrap();
    }
    // An existing plugin can still be withdrawn and deleted, but not changed.
    let everywhere = writer(PluginFamily::Plugins);
    let renamed = catalog.update_plugin(everywhere, before, named("B").fields);
    is_refused(renamed.await.map(drop), "rename");
    let tag = Some("2".to_owned());
    let looked = catalog.set_plugin_latest_tag(everywhere, before, tag);
    looked.await.unwrap();
    let local = PluginFields {
        is_global: Some(false),
        ..PluginFields::default()
    };
    let withdrawn = catalog.update_plugin(everywhere, before, local).await;
    assert!(!withdrawn.unwrap().plugin.is_global);
    catalog.delete_plugin(everywhere, before).await.unwrap();
}
