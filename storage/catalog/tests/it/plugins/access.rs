//! Who may write plugins at the moment of writing, whatever was so before.

use super::{code_of, create, files, named, writer};
use crate::fixture::Fixture;
use crate::stand::actor;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Actor, ChangeError, Family, OrganizationChange, PluginFields, PluginSetting, PluginWriter,
};
use serde_json::json;

on_both!(nobody_writes_who_was_shut_out_meanwhile,);

/// What becomes of every kind of write; the last one only looks for a newer version.
async fn outcomes(
    fixture: &Fixture,
    who: &Actor,
    id: i64,
) -> [(&'static str, Result<(), ChangeError>); 7] {
    let catalog = &fixture.catalog;
    let place = PluginWriter {
        actor: who,
        ..writer(fixture, Family::Plugins)
    };
    let fields = || named("B").fields;
    let changes = files(&[("a.js", Some("a"))]);
    let setting = PluginSetting {
        enabled: true,
        position: 1,
        config: json!({}),
    };
    let tag = Some("2".to_owned());
    let none = PluginFields::default();
    let created = catalog.create_plugin(place, named("A")).await;
    let updated = catalog.update_plugin(place, id, fields()).await;
    let written = catalog.update_plugin_source(place, id, none, changes).await;
    let upgraded = catalog.upgrade_plugin(place, id, fields(), None).await;
    let set = catalog.set_plugin_use(place, id, fixture.team_id, setting);
    let set = set.await;
    let deleted = match &created {
        // The others are still needed.
        Ok(made) => catalog.delete_plugin(place, made.plugin.id).await,
        Err(_) => catalog.delete_plugin(place, id).await,
    };
    let looked = catalog.set_plugin_latest_tag(place, id, tag).await;
    [
        ("create", created.map(drop)),
        ("update", updated.map(drop)),
        ("source", written.map(drop)),
        ("upgrade", upgraded.map(drop)),
        ("use", set.map(drop)),
        ("delete", deleted),
        ("look", looked.map(drop)),
    ]
}

async fn nobody_writes_who_was_shut_out_meanwhile(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, organization_id) = (&fixture.catalog, fixture.organization_id);
    let id = create(writer(&fixture, Family::Plugins), &fixture, "A").await;
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
