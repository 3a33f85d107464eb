//! Activity log: every write leaves an entry.

use millrace_catalog::testing::{TestDatabase, numbers, random_uuid};
use millrace_catalog::{
    Activity, ActivityEntry, ActivityScope, Actor, Catalog, PageRequest, Patch, Scopes,
};
use millrace_organizations::{
    ActivityFilter, ActivityLog, BootstrapOptions, NewPersonalKey, NewProject, Organizations,
    PersonalKeys, ProjectChange, ProjectKeyChanges, Projects, bootstrap,
};
use millrace_rows::ProjectId;
use serde_json::json;
use uuid::Uuid;

on_both!(
    every_write_leaves_an_entry_with_actor_and_change,
    a_refused_write_leaves_no_entry,
    keys_are_logged_in_their_organizations_without_their_values,
    entries_are_filtered_and_paged,
    entries_are_counted_per_scope_and_organization,
);
on_both!(empty: entries_of_older_schemas_are_counted);

const ALL: PageRequest = PageRequest {
    limit: 100,
    offset: 0,
};

async fn entries(catalog: &Catalog, organization_id: Uuid) -> Vec<ActivityEntry> {
    let filter = ActivityFilter {
        organization_id,
        scopes: Vec::new(),
        item_id: None,
    };
    ActivityLog::new(catalog)
        .list(&filter, ALL)
        .await
        .unwrap()
        .rows
}

fn anonymize() -> ProjectChange {
    ProjectChange {
        anonymize_ips: Patch::Value(true),
        ..ProjectChange::default()
    }
}

/// Catalog with one organization, its owner and its project.
async fn open(database: &TestDatabase) -> (Catalog, Actor, Uuid, ProjectId) {
    let catalog = Catalog::open(database.url()).await.unwrap();
    let options = BootstrapOptions::default();
    let made = bootstrap(&catalog, options).await.unwrap().unwrap();
    let key = made.personal_api_key.expose();
    let caller = PersonalKeys::new(&catalog)
        .authenticate(key)
        .await
        .unwrap()
        .unwrap();
    (
        catalog,
        caller.actor(),
        made.organization_id,
        made.project_id,
    )
}

async fn every_write_leaves_an_entry_with_actor_and_change(database: TestDatabase) {
    let (catalog, ann, id, project_id) = open(&database).await;
    let first: Vec<_> = entries(&catalog, id).await;
    let first: Vec<_> = first.iter().map(|e| (e.scope, e.activity)).collect();
    let made = [
        (ActivityScope::PersonalKey, Activity::Created),
        (ActivityScope::Project, Activity::Created),
        (ActivityScope::Organization, Activity::Created),
    ];
    assert_eq!(first, made);
    let changed = Projects::new(&catalog)
        .update(&ann, id, project_id, anonymize())
        .await;
    let changed = changed.unwrap();
    let newest = entries(&catalog, id).await.remove(0);
    assert_eq!(newest.scope, ActivityScope::Project);
    assert_eq!(newest.activity, Activity::Updated);
    assert_eq!(newest.item_id, project_id.to_string());
    assert_eq!(newest.detail.name, changed.name);
    assert_eq!(newest.user_id, ann.user_id());
    assert_eq!(newest.actor_email.as_deref(), Some("owner@localhost"));
    assert!(newest.key_id.is_some());
    assert_eq!(
        serde_json::to_value(&newest.detail.changes).unwrap(),
        json!([{
            "type": "Project",
            "action": "changed",
            "field": "anonymize_ips",
            "before": false,
            "after": true,
        }])
    );
    let operator = Actor::command_line();
    let rotated = ProjectKeyChanges::new(&catalog)
        .rotate(&operator, project_id, None)
        .await;
    let key = rotated.unwrap().api_token.unwrap();
    let newest = entries(&catalog, id).await.remove(0);
    assert_eq!((newest.user_id, newest.actor_email), (None, None));
    assert_eq!(newest.actor_name, "Command line");
    let text = serde_json::to_string(&newest.detail).unwrap();
    assert!(!text.contains(&key) && text.contains("api_token"), "{text}");
}

async fn a_refused_write_leaves_no_entry(database: TestDatabase) {
    let (catalog, ann, id, project_id) = open(&database).await;
    let before = entries(&catalog, id).await;
    let bad = Some("a b".to_owned());
    let refused = ProjectKeyChanges::new(&catalog)
        .rotate(&ann, project_id, bad)
        .await;
    refused.unwrap_err();
    assert_eq!(entries(&catalog, id).await, before);
}

async fn keys_are_logged_in_their_organizations_without_their_values(database: TestDatabase) {
    let (catalog, ann, first, _) = open(&database).await;
    let owner = ann.user_id();
    let second = Organizations::new(&catalog)
        .create(&ann, "Second", owner)
        .await;
    let second = second.unwrap().id;
    let new = NewPersonalKey {
        email: "owner@localhost".to_owned(),
        label: "Only there".to_owned(),
        scopes: Scopes::all(),
        expires_at: None,
        scoped_organizations: Some(vec![second]),
    };
    let key = PersonalKeys::new(&catalog).create(&ann, new).await.unwrap();
    let there = entries(&catalog, second).await.remove(0);
    assert_eq!(there.scope, ActivityScope::PersonalKey);
    assert_eq!(there.item_id, key.record.id.to_string());
    let text = serde_json::to_string(&there.detail).unwrap();
    assert!(!text.contains(key.value.expose()), "{text}");
    assert!(!text.contains(&key.record.key_hash), "{text}");
    let here = entries(&catalog, first).await;
    assert!(here.iter().all(|e| e.item_id != there.item_id));
}

async fn entries_are_filtered_and_paged(database: TestDatabase) {
    let (catalog, ann, id, project_id) = open(&database).await;
    for name in ["A", "B", "C"] {
        let new = NewProject::named(name);
        Projects::new(&catalog).create(&ann, id, new).await.unwrap();
    }
    let filter = ActivityFilter {
        organization_id: id,
        scopes: vec![ActivityScope::Project],
        item_id: None,
    };
    let page = PageRequest {
        limit: 2,
        offset: 1,
    };
    let part = ActivityLog::new(&catalog)
        .list(&filter, page)
        .await
        .unwrap();
    let names: Vec<_> = part.rows.iter().map(|e| e.detail.name.as_str()).collect();
    assert_eq!((part.count, names.as_slice()), (4, ["B", "A"].as_slice()));
    let filter = ActivityFilter {
        item_id: Some(project_id.to_string()),
        ..filter
    };
    let part = ActivityLog::new(&catalog).list(&filter, ALL).await.unwrap();
    assert_eq!(part.count, 1);
    assert_eq!(part.rows[0].detail.name, "Default project");
}

/// Number of entries with some scopes.
async fn count(catalog: &Catalog, organization_id: Uuid, scopes: &[ActivityScope]) -> u64 {
    let filter = ActivityFilter {
        organization_id,
        scopes: scopes.to_vec(),
        item_id: None,
    };
    let none = PageRequest {
        limit: 0,
        offset: 0,
    };
    ActivityLog::new(catalog)
        .list(&filter, none)
        .await
        .unwrap()
        .count
}

async fn entries_are_counted_per_scope_and_organization(database: TestDatabase) {
    let (catalog, ann, here, _) = open(&database).await;
    let other = Organizations::new(&catalog).create(&ann, "Other", ann.user_id());
    let other = other.await.unwrap().id;
    let make = |name| Projects::new(&catalog).create(&ann, other, NewProject::named(name));
    // Concurrently: no entry may be lost, and no deadlock may happen.
    let (a, b, c) = tokio::join!(make("A"), make("B"), make("C"));
    for made in [a, b, c] {
        made.unwrap();
    }
    let (project, whole) = (ActivityScope::Project, ActivityScope::Organization);
    assert_eq!(count(&catalog, other, &[project]).await, 4);
    assert_eq!(count(&catalog, other, &[whole]).await, 1);
    assert_eq!(count(&catalog, other, &[project, whole]).await, 5);
    assert_eq!(count(&catalog, other, &[ActivityScope::Role]).await, 0);
    assert_eq!(count(&catalog, other, &[]).await, 5);
    assert_eq!(count(&catalog, here, &[]).await, 3);
    Organizations::new(&catalog)
        .delete(&ann, other)
        .await
        .unwrap();
    assert_eq!(count(&catalog, other, &[]).await, 0);
    assert_eq!(count(&catalog, here, &[]).await, 3);
}

async fn entries_of_older_schemas_are_counted(database: TestDatabase) {
    let old = database.open_4bbccd5().await.unwrap();
    old.close().await.unwrap();
    let uuid = random_uuid(&database);
    let insert = format!(
        "INSERT INTO activity_log (id, organization_id, actor_name, activity, scope, item_id, \
         detail, created_at) {} SELECT {uuid}, {}, '', 'created', 'Role', 'x', \
         '{{\"name\": \"\", \"changes\": []}}', i FROM n",
        numbers(7),
        database.uuid_literal(Uuid::max()),
    );
    database.execute(&insert).await.unwrap();
    let catalog = Catalog::open(database.url()).await.unwrap();
    assert_eq!(count(&catalog, Uuid::max(), &[]).await, 7);
    assert_eq!(entries(&catalog, Uuid::max()).await.len(), 7);
}
