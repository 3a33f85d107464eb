//! Source files of deleted plugins, which follow one plugin after the other.

use super::{create, files, plugins, writer_in};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, Cleanup};
use millrace_organizations::testing::fixture::Fixture;
use millrace_organizations::{Organizations, PluginFamily, PluginFields};
use uuid::Uuid;

on_both!(sources_of_deleted_plugins_follow_one_plugin_after_the_other,);
on_both!(empty: sources_from_before_the_upgrade_are_kept_and_can_be_deleted);

async fn sources(database: &TestDatabase) -> u64 {
    let sql = "SELECT CAST(COUNT(*) AS TEXT) FROM plugin_source_files";
    database.first_column(sql).await.unwrap()[0]
        .parse()
        .unwrap()
}

/// Deletes all that is left; answers the rows of each piece.
async fn pieces(catalog: &Catalog) -> Vec<u64> {
    let mut pieces = Vec::new();
    loop {
        match Cleanup::new(catalog).delete_leftovers().await.unwrap() {
            0 => return pieces,
            rows => pieces.push(rows),
        }
    }
}

async fn sources_of_deleted_plugins_follow_one_plugin_after_the_other(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    let mut ids = Vec::new();
    for name in ["First", "Second", "Third"] {
        let id = create(writer, &fixture, name).await.plugin.id;
        let changes = files(&[("a.ts", Some("a")), ("b.ts", Some("b"))]);
        let written = plugins(catalog).update_source(writer, id, PluginFields::default(), changes);
        written.await.unwrap();
        ids.push(id);
    }
    assert!(!Cleanup::new(catalog).has_leftovers().await.unwrap());
    plugins(catalog).delete(writer, ids[0]).await.unwrap();
    // Nothing but the row and the mark was written.
    assert_eq!(sources(&database).await, 6);
    assert!(Cleanup::new(catalog).has_leftovers().await.unwrap());
    let family = PluginFamily::Plugins;
    let read = plugins(catalog).files(fixture.organization_id, family, ids[0]);
    assert!(read.await.unwrap().is_none());
    assert_eq!(pieces(catalog).await, [2, 1], "the last one is the mark");
    let deleted = Organizations::new(catalog).delete(&fixture.actor, fixture.organization_id);
    deleted.await.unwrap();
    assert_eq!(sources(&database).await, 4);
    // The mark of its project, and the files of a plugin.
    for expected in [1, 2] {
        assert_eq!(
            Cleanup::new(catalog).delete_leftovers().await.unwrap(),
            expected
        );
    }
    // The next process goes on from the database alone.
    catalog.close().await.unwrap();
    let next = Catalog::open(database.url()).await.unwrap();
    pieces(&next).await;
    assert_eq!(sources(&database).await, 0);
    assert!(!Cleanup::new(&next).has_leftovers().await.unwrap());
}

async fn sources_from_before_the_upgrade_are_kept_and_can_be_deleted(database: TestDatabase) {
    let old = database.open_before("m0045_deleted_plugins").await.unwrap();
    old.close().await.unwrap();
    let organization = database.uuid_literal(Uuid::from_u128(1));
    for row in [
        format!(
            "INSERT INTO organizations (id, name, slug, created_at, updated_at, \
             is_member_join_email_enabled, members_can_write_pipelines, plugins_access_level, \
             disabled_features) VALUES ({organization}, 'Acme', 'acme', 1, 1, false, true, 9, '[]')"
        ),
        format!(
            "INSERT INTO plugins (organization_id, config_schema, is_global, capabilities, \
             is_destination, is_frontend_app, is_import_app, is_transformation, created_at, \
             updated_at) \
             VALUES ({organization}, '[]', false, '{{}}', false, false, false, false, 1, 1)"
        ),
        "INSERT INTO plugin_source_files (plugin_id, filename, source, updated_at) \
         SELECT id, 'a.ts', 'export', 7 FROM plugins"
            .to_owned(),
    ] {
        database.execute(&row).await.unwrap();
    }
    let of_sources = async || {
        let mut rows = database.contents().await.unwrap();
        rows.retain(|row| row.starts_with("plugin_source_files "));
        rows
    };
    let before = of_sources().await;
    assert_eq!(before.len(), 1);
    let catalog = Catalog::open(database.url()).await.unwrap();
    assert_eq!(of_sources().await, before);
    let again = "INSERT INTO plugin_source_files SELECT * FROM plugin_source_files";
    assert!(database.execute(again).await.is_err(), "names stay unique");
    // Triggers mark rows that hand-written SQL deletes, too.
    database.execute("DELETE FROM organizations").await.unwrap();
    assert_eq!(of_sources().await, before);
    pieces(&catalog).await;
    assert!(of_sources().await.is_empty());
}
