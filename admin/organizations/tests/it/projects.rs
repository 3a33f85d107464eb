//! Projects: settings, lists, deletion.

use millrace_catalog::testing::{TestDatabase, numbers, random_uuid};
use millrace_catalog::{Activity, Actor, PageRequest, Patch, Project, ProjectKeys};
use millrace_organizations::testing::set_features;
use millrace_organizations::testing::test_env::{FIRST, TestEnv, actor, field, violation};
use millrace_organizations::{
    NewProject, Organizations, ProjectChange, ProjectKeyChanges, Projects,
};
use millrace_rows::ProjectId;

on_both!(
    settings_change_one_by_one,
    malformed_settings_are_refused,
    another_organizations_project_is_not_found,
    lists_are_searched_and_paged,
    a_deleted_project_is_gone_and_its_key_refused,
    an_organization_has_at_most_1500_projects,
    only_one_of_parallel_creations_succeeds_without_the_feature,
    the_first_event_is_marked_once_without_an_entry,
);

async fn first(env: &TestEnv) -> Project {
    let listed = Projects::new(&env.catalog)
        .list_all(Some(env.organization))
        .await;
    listed.unwrap().remove(0)
}

async fn settings_change_one_by_one(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let before = first(&env).await;
    let (ann, id) = (env.owner.clone(), ProjectId(before.id));
    let table = [
        ProjectChange {
            name: Patch::Value(" Shop ".to_owned()),
            ..ProjectChange::default()
        },
        ProjectChange {
            timezone: Patch::Value("europe/berlin".to_owned()),
            ..ProjectChange::default()
        },
        ProjectChange {
            anonymize_ips: Patch::Value(true),
            ..ProjectChange::default()
        },
    ];
    for change in table {
        let changed = Projects::new(&env.catalog).update(&ann, env.organization, id, change);
        changed.await.unwrap();
        assert_eq!(env.newest_entry().await.activity, Activity::Updated);
    }
    let after = first(&env).await;
    let expected = Project {
        name: "Shop".to_owned(),
        timezone: "Europe/Berlin".to_owned(),
        anonymize_ips: true,
        ..before
    };
    assert_eq!(after, expected);
    let entry = env.newest_entry().await;
    let nothing = ProjectChange::default();
    let same = Projects::new(&env.catalog).update(&ann, env.organization, id, nothing);
    assert_eq!(same.await.unwrap(), expected);
    assert_eq!(env.newest_entry().await, entry, "nothing changed");
}

async fn malformed_settings_are_refused(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let id = ProjectId(first(&env).await.id);
    let table = [
        (Some(" "), None, field("blank", "name")),
        (Some(&*"x".repeat(201)), None, field("max_length", "name")),
        (
            None,
            Some("Mars/Olympus"),
            field("invalid_input", "timezone"),
        ),
        (None, Some(""), field("invalid_input", "timezone")),
    ];
    for (name, timezone, expected) in table {
        let change = ProjectChange {
            name: name.map(str::to_owned).into(),
            timezone: timezone.map(str::to_owned).into(),
            anonymize_ips: Patch::Absent,
        };
        let refused = Projects::new(&env.catalog).update(&env.owner, env.organization, id, change);
        assert_eq!(violation(refused.await), expected);
    }
    let mut new = NewProject::named("A");
    new.timezone = Patch::Value("Nowhere".to_owned());
    let refused = Projects::new(&env.catalog)
        .create(&env.owner, env.organization, new)
        .await;
    assert_eq!(violation(refused), field("invalid_input", "timezone"));
}

#[test]
fn a_body_chooses_no_key() {
    let body = serde_json::json!({ "name": "A", "key": "chosen", "api_token": "chosen" });
    let new: NewProject = serde_json::from_value(body).unwrap();
    assert_eq!((new.name.as_str(), new.key), ("A", None));
}

async fn another_organizations_project_is_not_found(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, id) = (&env.catalog, ProjectId(first(&env).await.id));
    let bob = env.user("bob").await;
    let (owner, bob) = (Some(bob.id), actor(&bob));
    let made = Organizations::new(catalog)
        .create(&bob, "Bob's", owner)
        .await;
    let theirs = made.unwrap().id;
    let change = ProjectChange::default();
    assert!(
        Projects::new(catalog)
            .get_of(theirs, id)
            .await
            .unwrap()
            .is_none()
    );
    let refused = Projects::new(catalog)
        .update(&bob, theirs, id, change.clone())
        .await;
    assert_eq!(violation(refused).0, "not_found");
    let refused = ProjectKeyChanges::new(catalog)
        .reset(&bob, theirs, id)
        .await;
    assert_eq!(violation(refused).0, "not_found");
    let refused = Projects::new(catalog).delete(&bob, theirs, id).await;
    assert_eq!(violation(refused).0, "not_found");
    // A user who is no member is refused even with the right organization.
    let ours = env.organization;
    let refused = Projects::new(catalog).update(&bob, ours, id, change).await;
    assert_eq!(violation(refused).0, "permission_denied");
    let refused = Projects::new(catalog)
        .create(&bob, ours, NewProject::named("A"))
        .await;
    assert_eq!(violation(refused).0, "permission_denied");
    assert!(
        Projects::new(catalog)
            .get_of(ours, id)
            .await
            .unwrap()
            .is_some()
    );
}

async fn lists_are_searched_and_paged(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    for name in ["Äpfel rot", "äpfel grün", "Birnen"] {
        let new = NewProject::named(name);
        let made = Projects::new(&env.catalog).create(&env.owner, env.organization, new);
        made.await.unwrap();
    }
    let second = PageRequest {
        limit: 1,
        offset: 1,
    };
    let table = [
        (None, FIRST, 4, "Default project"),
        (None, second, 4, "Äpfel rot"),
        (Some("ÄPFEL"), FIRST, 2, "Äpfel rot"),
        (Some("äpfel"), second, 2, "äpfel grün"),
        (Some("%"), FIRST, 0, ""),
    ];
    for (search, page, count, name) in table {
        let listed = Projects::new(&env.catalog)
            .list(env.organization, search, page)
            .await;
        let listed = listed.unwrap();
        let first = listed.rows.first().map_or("", |project| &project.name);
        assert_eq!((listed.count, first), (count, name), "{search:?}");
    }
}

async fn a_deleted_project_is_gone_and_its_key_refused(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let project = first(&env).await;
    let (id, key) = (ProjectId(project.id), project.api_token.unwrap());
    let before = env.catalog.keys_version().await.unwrap();
    let deleted = Projects::new(&env.catalog).delete(&env.owner, env.organization, id);
    deleted.await.unwrap();
    assert!(Projects::new(&env.catalog).get(id).await.unwrap().is_none());
    assert!(
        ProjectKeys::new(&env.catalog)
            .find(&key)
            .await
            .unwrap()
            .is_none()
    );
    assert!(env.catalog.keys_version().await.unwrap() > before);
    let entry = env.newest_entry().await;
    assert_eq!(entry.activity, Activity::Deleted);
    assert_eq!(entry.item_id, id.to_string());
    let again = Projects::new(&env.catalog).delete(&env.owner, env.organization, id);
    assert_eq!(violation(again.await).0, "not_found");
}

async fn an_organization_has_at_most_1500_projects(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (numbers, uuid) = (numbers(1498), random_uuid(&database));
    let fill = format!(
        "INSERT INTO projects (uuid, organization_id, name, api_token_imported, anonymize_ips, \
         timezone, created_at, updated_at) {numbers} \
         SELECT {uuid}, organizations.id, 'Filler', false, false, 'UTC', 1, 1 \
         FROM n, organizations"
    );
    database.execute(&fill).await.unwrap();
    let (ann, id) = (env.owner.clone(), env.organization);
    let last = Projects::new(&env.catalog)
        .create(&ann, id, NewProject::named("Last"))
        .await;
    last.unwrap();
    let refused = Projects::new(&env.catalog).create(&ann, id, NewProject::named("One more"));
    assert_eq!(violation(refused.await).0, "permission_denied");
}

async fn only_one_of_parallel_creations_succeeds_without_the_feature(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (by, here) = (Actor::command_line(), env.organization);
    let feature = "organizations_projects";
    let off = [feature.to_owned()];
    let switched = set_features(&env.catalog, &by, here, &[], &off);
    switched.await.unwrap();
    let only = ProjectId(first(&env).await.id);
    let deleted = Projects::new(&env.catalog).delete(&by, here, only);
    deleted.await.unwrap();
    let creations = (0..20).map(|number| {
        let (catalog, ann) = (env.catalog.clone(), env.owner.clone());
        tokio::spawn(async move {
            let new = NewProject::named(&format!("Project {number}"));
            Projects::new(&catalog).create(&ann, here, new).await
        })
    });
    let creations: Vec<_> = creations.collect();
    let mut made = 0;
    for creation in creations {
        match creation.await.unwrap() {
            Ok(_) => made += 1,
            refused => assert_eq!(violation(refused), field("payment_required", feature)),
        }
    }
    assert_eq!(made, 1);
    let left = Projects::new(&env.catalog)
        .list_all(Some(here))
        .await
        .unwrap();
    assert_eq!(left.len(), 1);
}

async fn the_first_event_is_marked_once_without_an_entry(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let before = first(&env).await;
    let id = ProjectId(before.id);
    let entry = env.newest_entry().await;
    let version = env.catalog.keys_version().await.unwrap();
    let key = before.api_token.clone().unwrap();
    for noted in [false, true, true] {
        let found = ProjectKeys::new(&env.catalog)
            .find(&key)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(found.ingested_event, noted);
        ProjectKeys::new(&env.catalog)
            .note_first_event(id)
            .await
            .unwrap();
    }
    let after = first(&env).await;
    let expected = Project {
        ingested_event: true,
        ..before
    };
    assert_eq!(after, expected);
    assert_eq!(env.newest_entry().await, entry);
    assert_eq!(env.catalog.keys_version().await.unwrap(), version);
    let gone = ProjectId(id.0 + 1_000);
    ProjectKeys::new(&env.catalog)
        .note_first_event(gone)
        .await
        .unwrap();
}
