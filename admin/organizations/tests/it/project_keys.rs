//! Project keys: creation, choice, rotation, revocation, and the counter for caches.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, Catalog, ChangeError, Patch, Project, ProjectKeys};
use millrace_organizations::{
    NewProject, Organizations, ProjectChange, ProjectKeyChanges, Projects,
};
use millrace_rows::ProjectId;

on_both!(
    a_rotated_key_is_refused_and_the_new_one_works,
    a_project_without_key_can_be_given_one,
    a_key_belongs_to_one_project,
    every_change_increments_the_counter,
    foreign_keys_with_our_format_are_listed,
    project_ids_are_never_reused,
    errors_name_unknown_projects,
);

/// Actor of the changes here.
const SYSTEM: Actor = Actor::system();
/// Key with our format but not our checksum, like those of the service that our users come from.
const IMPORTED: &str = "phc_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

async fn open(database: &TestDatabase) -> (Catalog, Project) {
    let catalog = Catalog::open(database.url()).await.unwrap();
    Organizations::new(&catalog)
        .create(&SYSTEM, "Ours", None)
        .await
        .unwrap();
    let project = Projects::new(&catalog)
        .list_all(None)
        .await
        .unwrap()
        .remove(0);
    (catalog, project)
}

async fn project_of(catalog: &Catalog, key: &str) -> Option<i64> {
    let found = ProjectKeys::new(catalog).find(key).await.unwrap();
    found.map(|project| project.project_id.0)
}

async fn a_rotated_key_is_refused_and_the_new_one_works(database: TestDatabase) {
    let (catalog, project) = open(&database).await;
    let old = project.api_token.unwrap();
    assert_eq!(project_of(&catalog, &old).await, Some(project.id));
    let rotated = ProjectKeyChanges::new(&catalog)
        .rotate(&SYSTEM, ProjectId(project.id), None)
        .await
        .unwrap();
    let new = rotated.api_token.unwrap();
    assert_ne!(new, old);
    assert_eq!(project_of(&catalog, &old).await, None);
    assert_eq!(project_of(&catalog, &new).await, Some(project.id));
}

async fn a_project_without_key_can_be_given_one(database: TestDatabase) {
    let (catalog, project) = open(&database).await;
    let id = ProjectId(project.id);
    let key = project.api_token.unwrap();
    let error = ProjectKeyChanges::new(&catalog)
        .create(&SYSTEM, id, None)
        .await
        .unwrap_err();
    assert!(matches!(error, ChangeError::HasKey(_)), "{error:?}");
    assert_eq!(
        ProjectKeyChanges::new(&catalog)
            .revoke(&SYSTEM, &key)
            .await
            .unwrap()
            .api_token,
        None
    );
    assert_eq!(project_of(&catalog, &key).await, None);
    let error = ProjectKeyChanges::new(&catalog)
        .revoke(&SYSTEM, &key)
        .await
        .unwrap_err();
    assert!(matches!(error, ChangeError::NotFound { .. }), "{error:?}");
    let given = ProjectKeyChanges::new(&catalog)
        .create(&SYSTEM, id, Some("my-own-key".to_owned()))
        .await
        .unwrap();
    assert_eq!(given.api_token.as_deref(), Some("my-own-key"));
    assert_eq!(project_of(&catalog, "my-own-key").await, Some(project.id));
    assert_eq!(project_of(&catalog, "MY-OWN-KEY").await, None);
}

async fn a_key_belongs_to_one_project(database: TestDatabase) {
    let (catalog, project) = open(&database).await;
    let taken = project.api_token.unwrap();
    let mut second = NewProject::named("Second");
    second.key = Some(taken.clone());
    let organization = project.organization_id;
    let error = Projects::new(&catalog)
        .create(&SYSTEM, organization, second)
        .await
        .unwrap_err();
    assert!(matches!(error, ChangeError::KeyTaken), "{error:?}");
    let second = NewProject::named("Second");
    let second = Projects::new(&catalog)
        .create(&SYSTEM, organization, second)
        .await
        .unwrap();
    let error = ProjectKeyChanges::new(&catalog)
        .rotate(&SYSTEM, ProjectId(second.id), Some(taken))
        .await
        .unwrap_err();
    assert!(matches!(error, ChangeError::KeyTaken), "{error:?}");
    for key in ["", " ", "phx_personal", "a b", "ключ", &"k".repeat(65)] {
        let chosen = Some(key.to_owned());
        let error = ProjectKeyChanges::new(&catalog)
            .rotate(&SYSTEM, ProjectId(second.id), chosen)
            .await
            .unwrap_err();
        assert!(
            matches!(error, ChangeError::BadKey(_)),
            "{key:?}: {error:?}"
        );
    }
    assert_eq!(
        project_of(&catalog, &second.api_token.unwrap()).await,
        Some(second.id)
    );
}

async fn every_change_increments_the_counter(database: TestDatabase) {
    let (catalog, project) = open(&database).await;
    let elsewhere = Catalog::open(database.url()).await.unwrap();
    let mut seen = elsewhere.keys_version().await.unwrap();
    let id = ProjectId(project.id);
    let (keys, projects) = (ProjectKeyChanges::new(&catalog), Projects::new(&catalog));
    for step in [
        "rotate",
        "anonymize",
        "revoke",
        "give",
        "create project",
        "organization",
    ] {
        match step {
            "rotate" => drop(
                keys.rotate(&SYSTEM, id, Some("a".to_owned()))
                    .await
                    .unwrap(),
            ),
            "anonymize" => {
                let anonymize = ProjectChange {
                    anonymize_ips: Patch::Value(true),
                    ..ProjectChange::default()
                };
                projects
                    .update(&SYSTEM, project.organization_id, id, anonymize)
                    .await
                    .unwrap();
                assert!(
                    ProjectKeys::new(&elsewhere)
                        .find("a")
                        .await
                        .unwrap()
                        .unwrap()
                        .anonymize_ips
                );
            }
            "revoke" => drop(keys.revoke(&SYSTEM, "a").await.unwrap()),
            "give" => drop(keys.create(&SYSTEM, id, None).await.unwrap()),
            "create project" => {
                let new = NewProject::named("Second");
                projects
                    .create(&SYSTEM, project.organization_id, new)
                    .await
                    .unwrap();
            }
            _ => drop(
                Organizations::new(&catalog)
                    .create(&SYSTEM, "Theirs", None)
                    .await
                    .unwrap(),
            ),
        }
        let now = elsewhere.keys_version().await.unwrap();
        assert!(now > seen, "{step}");
        seen = now;
    }
    keys.rotate(&SYSTEM, id, Some("a b".to_owned()))
        .await
        .unwrap_err();
    assert_eq!(
        elsewhere.keys_version().await.unwrap(),
        seen,
        "nothing changed"
    );
}

async fn foreign_keys_with_our_format_are_listed(database: TestDatabase) {
    let (catalog, project) = open(&database).await;
    let id = ProjectId(project.id);
    assert!(
        ProjectKeys::new(&catalog)
            .list_imported(10)
            .await
            .unwrap()
            .is_empty()
    );
    for (key, listed) in [(IMPORTED, true), ("other-form", false), (IMPORTED, true)] {
        ProjectKeyChanges::new(&catalog)
            .rotate(&SYSTEM, id, Some(key.to_owned()))
            .await
            .unwrap();
        assert_eq!(project_of(&catalog, key).await, Some(project.id));
        let expected: &[&str] = if listed { &[IMPORTED] } else { &[] };
        assert_eq!(
            ProjectKeys::new(&catalog).list_imported(10).await.unwrap(),
            expected
        );
    }
    let living = async || {
        let asked = ProjectKeys::new(&catalog).filter_living(&["nobody's", IMPORTED]);
        asked.await.unwrap()
    };
    assert_eq!(living().await, [IMPORTED]);
    ProjectKeyChanges::new(&catalog)
        .revoke(&SYSTEM, IMPORTED)
        .await
        .unwrap();
    assert!(
        ProjectKeys::new(&catalog)
            .list_imported(10)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(living().await.is_empty());
}

async fn project_ids_are_never_reused(database: TestDatabase) {
    let (catalog, project) = open(&database).await;
    let organization = project.organization_id;
    let last = Projects::new(&catalog)
        .create(&SYSTEM, organization, NewProject::named("Last"))
        .await
        .unwrap();
    assert!(last.id > project.id);
    database
        .execute(&format!("DELETE FROM projects WHERE id = {}", last.id))
        .await
        .unwrap();
    let next = Projects::new(&catalog)
        .create(&SYSTEM, organization, NewProject::named("Next"))
        .await
        .unwrap();
    assert!(next.id > last.id);
}

async fn errors_name_unknown_projects(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    let error = ProjectKeyChanges::new(&catalog)
        .rotate(&SYSTEM, ProjectId(4711), None)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "there is no project \"4711\"");
    assert!(
        Projects::new(&catalog)
            .get(ProjectId(4711))
            .await
            .unwrap()
            .is_none()
    );
    let nowhere = uuid::Uuid::nil();
    let error = Projects::new(&catalog)
        .create(&SYSTEM, nowhere, NewProject::named("A"))
        .await
        .unwrap_err();
    assert!(
        error.to_string().starts_with("there is no organization"),
        "{error}"
    );
}
