//! Global plugins that are withdrawn from the organizations that use them.

use super::{COMMAND_LINE, files, foreign, named, writer_in};
use crate::fixture::Fixture;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Activity, ActivityScope, Actor, ChangeError, PluginFamily, PluginFields, PluginSetting,
    PluginWriter, ProjectId,
};
use serde_json::json;
use std::sync::Arc;
use tokio::task::JoinSet;
use uuid::Uuid;

on_both!(
    a_withdrawn_plugin_is_removed_with_an_entry_in_the_log_of_each_organization,
    nobody_loses_the_use_of_a_plugin_whose_organization_is_deleted_meanwhile,
    plugins_are_withdrawn_while_their_users_are_deleted,
);

/// Repetitions of each race.
const ROUNDS: usize = 12;

fn withdrawn() -> PluginFields {
    PluginFields {
        is_global: Some(false),
        ..PluginFields::default()
    }
}

fn setting() -> PluginSetting {
    PluginSetting {
        enabled: true,
        position: 1,
        config: json!({}),
    }
}

/// Writer of an organization, with the operator's power.
fn operator_in(organization_id: Uuid) -> PluginWriter<'static> {
    PluginWriter {
        actor: &COMMAND_LINE,
        organization_id,
        family: PluginFamily::Plugins,
        is_operator: true,
    }
}

async fn global(fixture: &Fixture, organization_id: Uuid, name: &str) -> i64 {
    let mut new = named(name);
    new.fields.is_global = Some(true);
    let made = fixture
        .catalog
        .create_plugin(operator_in(organization_id), new);
    made.await.unwrap().plugin.id
}

/// Organization with a project.
async fn organization(fixture: &Fixture, name: &str) -> (Uuid, ProjectId) {
    let system = Actor::system();
    let made = fixture.catalog.create_organization(&system, name, None);
    let id = made.await.unwrap().id;
    let projects = fixture.catalog.list_projects(Some(id)).await.unwrap();
    (id, ProjectId(projects[0].id))
}

async fn use_plugin(
    fixture: &Fixture,
    (organization_id, project_id): (Uuid, ProjectId),
    plugin: i64,
) -> Result<i64, ChangeError> {
    let writer = operator_in(organization_id);
    let set = fixture
        .catalog
        .set_plugin_use(writer, plugin, project_id, setting());
    set.await.map(|config| config.id)
}

async fn count(database: &TestDatabase, rows: &str) -> i64 {
    let sql = format!("SELECT CAST(COUNT(*) AS TEXT) FROM {rows}");
    database.first_column(&sql).await.unwrap()[0]
        .parse()
        .unwrap()
}

async fn a_withdrawn_plugin_is_removed_with_an_entry_in_the_log_of_each_organization(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let (catalog, operator) = (&fixture.catalog, operator_in(fixture.foreign_id));
    let user = (fixture.organization_id, fixture.project_id);
    let owner = (fixture.foreign_id, fixture.foreign_project_id);
    for way in ["update", "upgrade", "source"] {
        let plugin = global(&fixture, fixture.foreign_id, way).await;
        let config = use_plugin(&fixture, user, plugin).await.unwrap();
        use_plugin(&fixture, owner, plugin).await.unwrap();
        let done = match way {
            "update" => {
                let done = catalog.update_plugin(operator, plugin, withdrawn());
                done.await.map(drop)
            }
            "upgrade" => {
                let done = catalog.upgrade_plugin(operator, plugin, withdrawn(), None);
                done.await.map(drop)
            }
            _ => {
                let changes = files(&[("a.js", Some("a"))]);
                let done = catalog.update_plugin_source(operator, plugin, withdrawn(), changes);
                done.await.map(drop)
            }
        };
        done.unwrap();
        let seen = catalog.plugin(fixture.organization_id, PluginFamily::Plugins, plugin);
        assert_eq!(seen.await.unwrap(), None, "{way}");
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
        catalog
            .delete_plugin(foreign(&fixture), plugin)
            .await
            .unwrap();
    }
    // Plugins of the user's own are no others' concern.
    let own = writer_in(&fixture, PluginFamily::Plugins);
    let made = catalog.create_plugin(own, named("Own")).await.unwrap();
    let id = made.plugin.id;
    use_plugin(&fixture, user, id).await.unwrap();
    catalog.update_plugin(own, id, withdrawn()).await.unwrap();
    catalog.delete_plugin(own, id).await.unwrap();
}

async fn nobody_loses_the_use_of_a_plugin_whose_organization_is_deleted_meanwhile(
    database: TestDatabase,
) {
    let fixture = Arc::new(Fixture::open(&database).await);
    let user = (fixture.organization_id, fixture.project_id);
    for _ in 0..ROUNDS {
        let (maker, _) = organization(&fixture, "Maker").await;
        let plugin = global(&fixture, maker, "Shared").await;
        let deleter = fixture.clone();
        let deleted = tokio::spawn(async move {
            let system = Actor::system();
            deleter.catalog.delete_organization(&system, maker).await
        });
        let set = use_plugin(&fixture, user, plugin).await;
        let deleted = deleted.await.unwrap();
        match (&set, &deleted) {
            (Ok(_), Err(ChangeError::Invalid(_))) | (Err(ChangeError::NotFound { .. }), Ok(())) => {
            }
            other => panic!("{other:?}"),
        }
        let uses = format!("plugin_configs WHERE plugin_id = {plugin}");
        let uses = count(&database, &uses).await;
        assert_eq!(uses, i64::from(set.is_ok()));
    }
}

async fn plugins_are_withdrawn_while_their_users_are_deleted(database: TestDatabase) {
    let fixture = Arc::new(Fixture::open(&database).await);
    for _ in 0..ROUNDS {
        let plugin = global(&fixture, fixture.foreign_id, "Shared").await;
        let mut users = Vec::new();
        for number in 0..4 {
            let user = organization(&fixture, &format!("User {number}")).await;
            use_plugin(&fixture, user, plugin).await.unwrap();
            users.push(user);
        }
        let mut changes: JoinSet<Result<(), ChangeError>> = JoinSet::new();
        for (number, user) in users.into_iter().enumerate() {
            let fixture = fixture.clone();
            changes.spawn(async move {
                if number % 2 == 0 {
                    return use_plugin(&fixture, user, plugin).await.map(drop);
                }
                let system = Actor::system();
                fixture.catalog.delete_organization(&system, user.0).await
            });
        }
        let (operator, withdrawer) = (operator_in(fixture.foreign_id), fixture.clone());
        changes.spawn(async move {
            let done = withdrawer
                .catalog
                .update_plugin(operator, plugin, withdrawn());
            done.await.map(drop)
        });
        for outcome in changes.join_all().await {
            // Who comes too late sees no plugin.
            let well = matches!(outcome, Ok(()) | Err(ChangeError::NotFound { .. }));
            assert!(well, "{outcome:?}");
        }
        let uses = format!("plugin_configs WHERE plugin_id = {plugin}");
        assert_eq!(count(&database, &uses).await, 0);
        let orphans = "activity_counts WHERE organization_id IS NOT NULL \
             AND organization_id NOT IN (SELECT id FROM organizations)";
        assert_eq!(count(&database, orphans).await, 0);
    }
}
