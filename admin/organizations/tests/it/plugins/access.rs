//! Permissions to write plugins, as they are at the moment of writing.

use super::{code_of, create, files, named, plugins, writer_in};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, ChangeError, Patch};
use millrace_organizations::testing::fixture::Fixture;
use millrace_organizations::testing::set_features;
use millrace_organizations::testing::test_env::actor;
use millrace_organizations::{
    Members, NewPlugin, OrganizationChange, Organizations, PluginFamily, PluginFields, PluginWriter,
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
    let created = plugins(catalog).create(writer, named("A")).await;
    let updated = plugins(catalog).update(writer, id, fields()).await;
    let written = plugins(catalog)
        .update_source(writer, id, none, changes)
        .await;
    let upgraded = plugins(catalog).upgrade(writer, id, fields(), None).await;
    let deleted = match &created {
        // Later calls still need the other plugins.
        Ok(made) => plugins(catalog).delete(writer, made.plugin.id).await,
        Err(_) => plugins(catalog).delete(writer, id).await,
    };
    let looked = plugins(catalog).set_latest_tag(writer, id, tag).await;
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
        members_can_write_pipelines: Patch::Value(false),
        ..OrganizationChange::default()
    };
    let changed = Organizations::new(catalog).update(&fixture.actor, organization_id, off);
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

    let removed = Members::new(catalog).remove(&fixture.actor, organization_id, mia.uuid);
    removed.await.unwrap();
    for (what, done) in outcomes(&fixture, &actor(&mia), id).await {
        assert_eq!(code_of(&done.unwrap_err()), (None, "forbidden"), "{what}");
    }

    let deleted = Organizations::new(catalog).delete(&fixture.actor, organization_id);
    deleted.await.unwrap();
    for who in [&fixture.actor, &actor(&mia)] {
        for (what, done) in outcomes(&fixture, who, id).await {
            assert_eq!(code_of(&done.unwrap_err()), (None, "not_found"), "{what}");
        }
    }
}

/// Fields that make a plugin a destination or a transformation.
fn can(method: &str) -> PluginFields {
    PluginFields {
        capabilities: Patch::Value(json!({ "methods": [method] })),
        ..PluginFields::default()
    }
}

fn made_of(fields: PluginFields) -> NewPlugin {
    NewPlugin {
        fields,
        ..NewPlugin::default()
    }
}

fn assert_lacks_the_feature(done: &Result<(), ChangeError>, case: &str) {
    let refused = matches!(done, Err(ChangeError::FeatureMissing("data_pipelines")));
    assert!(refused, "{case}: {done:?}");
}

/// Asserts that a plugin of the writer's family neither begins nor becomes to have a method.
async fn assert_no_way_to(method: &str, fixture: &Fixture, writer: PluginWriter<'_>, id: i64) {
    let (catalog, case) = (&fixture.catalog, writer.family.segment());
    let made = plugins(catalog).create(writer, made_of(can(method)));
    assert_lacks_the_feature(&made.await.map(drop), &format!("create {case} {method}"));
    let changed = plugins(catalog).update(writer, id, can(method));
    assert_lacks_the_feature(&changed.await.map(drop), &format!("update {case} {method}"));
    let upgraded = plugins(catalog).upgrade(writer, id, can(method), None);
    assert_lacks_the_feature(
        &upgraded.await.map(drop),
        &format!("upgrade {case} {method}"),
    );
    let main = format!("export function {method}() {{}}");
    let changes = files(&[("index.js", Some(&main))]);
    let written = plugins(catalog).update_source(writer, id, PluginFields::default(), changes);
    assert_lacks_the_feature(&written.await.map(drop), &format!("source {case} {method}"));
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
    let of_before = PluginFields {
        is_global: Patch::Value(true),
        ..can("onEvent")
    };
    let before = plugins(catalog).create(writer(PluginFamily::Plugins), made_of(of_before));
    let before = before.await.unwrap().plugin.id;
    let off = ["data_pipelines".to_owned()];
    let taken = set_features(catalog, &fixture.actor, organization_id, &[], &off);
    taken.await.unwrap();
    for family in PluginFamily::ALL {
        if matches!(
            family,
            PluginFamily::Destinations | PluginFamily::Transformations
        ) {
            let done = plugins(catalog).create(writer(family), named("A")).await;
            assert_lacks_the_feature(&done.map(drop), family.segment());
            continue;
        }
        let id = create(writer(family), &fixture, "Harmless").await.plugin.id;
        for method in ["onEvent", "composeWebhook", "processEvent"] {
            assert_no_way_to(method, &fixture, writer(family), id).await;
        }
        let renamed = plugins(catalog).update(writer(family), id, named("B").fields);
        renamed.await.unwrap();
    }
    // An existing plugin can still be withdrawn and deleted, but not changed.
    let everywhere = writer(PluginFamily::Plugins);
    let renamed = plugins(catalog).update(everywhere, before, named("B").fields);
    assert_lacks_the_feature(&renamed.await.map(drop), "rename");
    let tag = Some("2".to_owned());
    let looked = plugins(catalog).set_latest_tag(everywhere, before, tag);
    looked.await.unwrap();
    let local = PluginFields {
        is_global: Patch::Value(false),
        ..PluginFields::default()
    };
    let withdrawn = plugins(catalog).update(everywhere, before, local).await;
    assert!(!withdrawn.unwrap().plugin.is_global);
    plugins(catalog).delete(everywhere, before).await.unwrap();
}
