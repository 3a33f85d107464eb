//! Global plugins that are withdrawn from the organizations that use them.

use super::{COMMAND_LINE, code_of, create, files, foreign, named, plugins, writer_in};
use millrace_catalog::testing::{TestDatabase, numbers, random_uuid};
use millrace_catalog::{
    Activity, ActivityScope, Actor, Catalog, ChangeError, Cleanup, PageRequest, Patch, ProjectId,
};
use millrace_organizations::testing::fixture::Fixture;
use millrace_organizations::{
    ActivityFilter, ActivityLog, Organizations, PluginFamily, PluginFields, PluginWriter, Projects,
};
use serde_json::json;
use std::sync::Arc;
use tokio::task::JoinSet;
use uuid::Uuid;

on_both!(
    a_withdrawn_plugin_is_gone_at_once_and_removed_with_an_entry_in_the_log,
    configurations_are_deleted_in_pieces_of_one_organization_each,
    a_plugin_that_is_global_again_stays_in_the_projects_of_others,
    plugins_are_withdrawn_while_their_users_are_deleted,
    a_withdrawn_plugin_goes_before_all_other_leftovers,
    uses_of_a_plugin_without_a_mark_are_found_and_deleted,
);
on_both!(empty: configurations_that_earlier_versions_left_are_deleted_after_the_upgrade);

/// Repetitions of each race.
const ROUNDS: usize = 12;
/// Most configurations that one piece deletes.
const PIECE: u64 = 250;

fn global_is(is_global: bool) -> PluginFields {
    PluginFields {
        is_global: Patch::Value(is_global),
        ..PluginFields::default()
    }
}

/// Writer of the other organization, with the operator's power.
fn operator(fixture: &Fixture) -> PluginWriter<'_> {
    PluginWriter {
        is_operator: true,
        ..foreign(fixture)
    }
}

async fn global(fixture: &Fixture, name: &str) -> i64 {
    let mut new = named(name);
    new.fields.is_global = Patch::Value(true);
    let made = plugins(&fixture.catalog).create(operator(fixture), new);
    made.await.unwrap().plugin.id
}

async fn withdraw(fixture: &Fixture, plugin: i64) {
    let fields = global_is(false);
    let changed = plugins(&fixture.catalog).update(operator(fixture), plugin, fields);
    changed.await.unwrap();
}

/// Organization with a project.
async fn organization(fixture: &Fixture, name: &str) -> (Uuid, ProjectId) {
    let system = Actor::system();
    let made = Organizations::new(&fixture.catalog).create(&system, name, None);
    let id = made.await.unwrap().id;
    let projects = Projects::new(&fixture.catalog)
        .list_all(Some(id))
        .await
        .unwrap();
    (id, ProjectId(projects[0].id))
}

async fn configure(fixture: &Fixture, plugin: i64, project_id: ProjectId) -> i64 {
    let added = fixture
        .catalog
        .configure_plugin(plugin, project_id, true, json!({}), None);
    added.await.unwrap()
}

async fn count(database: &TestDatabase, rows: &str) -> u64 {
    let sql = format!("SELECT CAST(COUNT(*) AS TEXT) FROM {rows}");
    database.first_column(&sql).await.unwrap()[0]
        .parse()
        .unwrap()
}

async fn is_seen(fixture: &Fixture, plugin: i64) -> bool {
    let (here, family) = (fixture.organization_id, PluginFamily::Plugins);
    let seen = plugins(&fixture.catalog).get(here, family, plugin);
    seen.await.unwrap().is_some()
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

async fn a_withdrawn_plugin_is_gone_at_once_and_removed_with_an_entry_in_the_log(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let (catalog, operator) = (&fixture.catalog, operator(&fixture));
    let fields = || global_is(false);
    for way in ["update", "upgrade", "source"] {
        let plugin = global(&fixture, way).await;
        let config = configure(&fixture, plugin, fixture.project_id).await;
        configure(&fixture, plugin, fixture.foreign_project_id).await;
        assert!(!Cleanup::new(catalog).has_leftovers().await.unwrap());
        let done = match way {
            "update" => {
                let done = plugins(catalog).update(operator, plugin, fields());
                done.await.map(drop)
            }
            "upgrade" => {
                let done = plugins(catalog).upgrade(operator, plugin, fields(), None);
                done.await.map(drop)
            }
            _ => {
                let changes = files(&[("a.js", Some("a"))]);
                let done = plugins(catalog).update_source(operator, plugin, fields(), changes);
                done.await.map(drop)
            }
        };
        done.unwrap();
        assert!(!is_seen(&fixture, plugin).await, "{way}");
        assert!(Cleanup::new(catalog).has_leftovers().await.unwrap());
        let refused = plugins(catalog).delete(operator, plugin).await.unwrap_err();
        assert!(matches!(refused, ChangeError::Unavailable(_)), "{way}");
        assert_eq!(pieces(catalog).await, [1, 1], "the last one is the mark");
        assert!(!Cleanup::new(catalog).has_leftovers().await.unwrap());
        let newest = fixture
            .activity(ActivityScope::PluginConfig)
            .await
            .remove(0);
        let (activity, id) = (newest.activity, newest.item_id);
        assert_eq!((activity, id), (Activity::Disabled, config.to_string()));
        assert_eq!(newest.detail.name, way);
        let own = format!("plugin_configs WHERE plugin_id = {plugin}");
        assert_eq!(
            count(&database, &own).await,
            1,
            "the owner goes on using it"
        );
        plugins(catalog)
            .delete(foreign(&fixture), plugin)
            .await
            .unwrap();
        pieces(catalog).await;
    }
    // Plugins of an organization's own are no others' concern.
    let own = writer_in(&fixture, PluginFamily::Plugins);
    let id = create(own, &fixture, "Own").await.plugin.id;
    configure(&fixture, id, fixture.project_id).await;
    plugins(catalog).update(own, id, fields()).await.unwrap();
    plugins(catalog).delete(own, id).await.unwrap();
}

/// Adds projects to the first organization, and a plugin to each project of it.
async fn fill(database: &TestDatabase, plugin: i64, projects: u32) {
    let (numbers, uuid) = (numbers(projects), random_uuid(database));
    for row in [
        format!(
            "INSERT INTO projects (uuid, organization_id, name, api_token_imported, anonymize_ips, \
             timezone, created_at, updated_at) {numbers} SELECT {uuid}, organizations.id, 'P', \
             false, false, 'UTC', i, i FROM organizations, n WHERE organizations.name <> 'Foreign'"
        ),
        format!(
            "INSERT INTO plugin_configs (plugin_id, team_id, enabled, position, config, \
             created_at, updated_at) SELECT {plugin}, projects.id, true, 1, '{{}}', 1, 1 FROM \
             projects JOIN organizations ON organizations.id = organization_id \
             WHERE organizations.name <> 'Foreign'"
        ),
    ] {
        database.execute(&row).await.unwrap();
    }
}

async fn configurations_are_deleted_in_pieces_of_one_organization_each(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let plugin = global(&fixture, "Shared").await;
    fill(&database, plugin, 300).await;
    let (other, project_id) = organization(&fixture, "Other").await;
    configure(&fixture, plugin, project_id).await;
    let rows = format!("plugin_configs WHERE plugin_id = {plugin}");
    withdraw(&fixture, plugin).await;
    assert_eq!(
        count(&database, &rows).await,
        302,
        "nothing but a mark was written"
    );
    // The next process goes on from the database alone.
    let first = Cleanup::new(catalog).delete_leftovers().await.unwrap();
    catalog.close().await.unwrap();
    let next = Catalog::open(database.url()).await.unwrap();
    let mut all = pieces(&next).await;
    assert_eq!(all.pop(), Some(1), "the mark goes last");
    all.push(first);
    all.sort_unstable();
    assert_eq!(all, [1, 51, PIECE]);
    assert_eq!(count(&database, &rows).await, 0);
    for (organization_id, entries) in [(fixture.organization_id, 301), (other, 1)] {
        let filter = ActivityFilter {
            organization_id,
            scopes: vec![ActivityScope::PluginConfig],
            item_id: None,
        };
        let page = PageRequest {
            limit: 1_000,
            offset: 0,
        };
        let log = ActivityLog::new(&next).list(&filter, page).await.unwrap();
        assert_eq!((log.count, log.rows.len() as u64), (entries, entries));
    }
}

async fn a_plugin_that_is_global_again_stays_in_the_projects_of_others(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let plugin = global(&fixture, "Shared").await;
    configure(&fixture, plugin, fixture.project_id).await;
    withdraw(&fixture, plugin).await;
    let again = plugins(catalog).update(operator(&fixture), plugin, global_is(true));
    again.await.unwrap();
    assert_eq!(pieces(catalog).await, [1], "the mark");
    assert!(is_seen(&fixture, plugin).await);
    assert_eq!(count(&database, "plugin_configs").await, 1);
    // Before anything was cleaned up, it is withdrawn for the second time.
    for is_global in [false, true, false] {
        let changed = plugins(catalog).update(operator(&fixture), plugin, global_is(is_global));
        changed.await.unwrap();
    }
    assert_eq!(pieces(catalog).await, [1, 1]);
    let deleted = plugins(catalog).delete(operator(&fixture), plugin).await;
    deleted.unwrap();
}

async fn plugins_are_withdrawn_while_their_users_are_deleted(database: TestDatabase) {
    let fixture = Arc::new(Fixture::open(&database).await);
    for _ in 0..ROUNDS {
        let plugin = global(&fixture, "Shared").await;
        let mut changes: JoinSet<Result<(), ChangeError>> = JoinSet::new();
        for number in 0..4 {
            let (user, project_id) = organization(&fixture, &format!("User {number}")).await;
            configure(&fixture, plugin, project_id).await;
            if number % 2 == 0 {
                let fixture = fixture.clone();
                changes.spawn(async move {
                    let system = Actor::system();
                    Organizations::new(&fixture.catalog)
                        .delete(&system, user)
                        .await
                });
            }
        }
        let cleaner = fixture.clone();
        changes.spawn(async move {
            let catalog = &cleaner.catalog;
            let fields = global_is(false);
            let withdrawn = plugins(catalog).update(operator(&cleaner), plugin, fields);
            withdrawn.await?;
            // The process with the lease, while the others go on.
            for _ in 0..4 {
                Cleanup::new(catalog).delete_leftovers().await?;
            }
            Ok(())
        });
        for outcome in changes.join_all().await {
            outcome.unwrap();
        }
        while Cleanup::new(&fixture.catalog)
            .has_leftovers()
            .await
            .unwrap()
        {
            Cleanup::new(&fixture.catalog)
                .delete_leftovers()
                .await
                .unwrap();
        }
        let uses = format!("plugin_configs WHERE plugin_id = {plugin}");
        assert_eq!(count(&database, &uses).await, 0);
        let leftovers = "activity_counts WHERE organization_id IS NOT NULL \
             AND organization_id NOT IN (SELECT id FROM organizations)";
        assert_eq!(count(&database, leftovers).await, 0);
    }
}

async fn a_withdrawn_plugin_goes_before_all_other_leftovers(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, 1_000);
    let plugin = global(&fixture, "Shared").await;
    configure(&fixture, plugin, fixture.project_id).await;
    let numbers = numbers(2_100);
    for row in [
        format!("INSERT INTO deleted_projects (team_id) VALUES ({project_id})"),
        format!(
            "INSERT INTO person_distinct_ids (team_id, distinct_id, person_id, version) {numbers} \
             SELECT {project_id}, 'd' || i, {}, 1 FROM n",
            random_uuid(&database)
        ),
    ] {
        database.execute(&row).await.unwrap();
    }
    withdraw(&fixture, plugin).await;
    for left in [1, 0] {
        assert_eq!(Cleanup::new(catalog).delete_leftovers().await.unwrap(), 1);
        assert_eq!(count(&database, "plugin_configs").await, 0);
        assert_eq!(count(&database, "withdrawn_plugins").await, left, "marks");
    }
    let deleted = plugins(catalog).delete(operator(&fixture), plugin).await;
    deleted.unwrap();
    let pieces = pieces(catalog).await;
    assert!(pieces.starts_with(&[2_000, 100]), "{pieces:?}");
}

async fn uses_of_a_plugin_without_a_mark_are_found_and_deleted(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let (plugin, kept) = (global(&fixture, "A").await, global(&fixture, "B").await);
    for plugin in [plugin, kept] {
        configure(&fixture, plugin, fixture.project_id).await;
        configure(&fixture, plugin, fixture.foreign_project_id).await;
    }
    assert_eq!(
        Cleanup::new(catalog)
            .mark_withdrawn_plugins()
            .await
            .unwrap(),
        0
    );
    // As a process of an earlier version withdraws it.
    let unmarked = format!("UPDATE plugins SET is_global = false WHERE id = {plugin}");
    database.execute(&unmarked).await.unwrap();
    assert!(!Cleanup::new(catalog).has_leftovers().await.unwrap());
    let refused = plugins(catalog).delete(operator(&fixture), plugin).await;
    assert!(matches!(refused, Err(ChangeError::Unavailable(_))));
    for marked in [1, 0] {
        let found = Cleanup::new(catalog).mark_withdrawn_plugins().await;
        assert_eq!(found.unwrap(), marked);
    }
    assert_eq!(pieces(catalog).await, [1, 1], "the last one is the mark");
    assert_eq!(count(&database, "plugin_configs").await, 3);
    let deleted = plugins(catalog).delete(operator(&fixture), plugin).await;
    deleted.unwrap();
}

async fn configurations_that_earlier_versions_left_are_deleted_after_the_upgrade(
    database: TestDatabase,
) {
    let old = database
        .open_before("m0047_withdrawn_plugins")
        .await
        .unwrap();
    old.close().await.unwrap();
    let [owner, user] = [1, 2].map(|id| database.uuid_literal(Uuid::from_u128(id)));
    let organization = |id: &str, slug: &str| {
        format!(
            "INSERT INTO organizations (id, name, slug, created_at, updated_at, \
             is_member_join_email_enabled, members_can_write_pipelines, plugins_access_level, \
             disabled_features) VALUES ({id}, '{slug}', '{slug}', 1, 1, false, true, 9, '[]')"
        )
    };
    let project = |id: &str| {
        format!(
            "INSERT INTO projects (uuid, organization_id, name, api_token_imported, anonymize_ips, \
             timezone, created_at, updated_at) VALUES ({id}, {id}, 'P', false, false, 'UTC', 1, 1)"
        )
    };
    let plugin = |is_global: bool| {
        format!(
            "INSERT INTO plugins (organization_id, config_schema, is_global, capabilities, \
             is_destination, is_frontend_app, is_import_app, is_transformation, created_at, \
             updated_at) VALUES ({owner}, '[]', {is_global}, '{{}}', false, false, false, false, \
             1, 1)"
        )
    };
    for row in [
        organization(&owner, "owner"),
        organization(&user, "user"),
        project(&owner),
        project(&user),
        plugin(false),
        plugin(true),
        // Each project has both.
        "INSERT INTO plugin_configs (plugin_id, team_id, enabled, position, config, created_at, \
         updated_at) SELECT plugins.id, projects.id, true, 1, '{}', 1, 1 FROM plugins, projects"
            .to_owned(),
    ] {
        database.execute(&row).await.unwrap();
    }
    let catalog = Catalog::open(database.url()).await.unwrap();
    assert_eq!(count(&database, "plugin_configs").await, 4);
    assert_eq!(pieces(&catalog).await, [1, 1]);
    let kept = "plugin_configs JOIN plugins ON plugins.id = plugin_id \
                JOIN projects ON projects.id = team_id \
                WHERE is_global OR projects.organization_id = plugins.organization_id";
    assert_eq!(count(&database, kept).await, 3);
    assert_eq!(count(&database, "plugin_configs").await, 3);
    let deleted =
        Organizations::new(&catalog).delete(&COMMAND_LINE, organization_id(&catalog).await);
    let refused = deleted.await.unwrap_err();
    assert_eq!(code_of(&refused), (None, "invalid_input"));
}

/// Id of the organization that owns the plugins.
async fn organization_id(catalog: &Catalog) -> Uuid {
    let all = Organizations::new(catalog).list_all().await.unwrap();
    let owner = all.iter().find(|organization| organization.slug == "owner");
    owner.unwrap().id
}
