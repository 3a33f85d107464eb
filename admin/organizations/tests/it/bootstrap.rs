//! Bootstrap of an empty catalog.

use millrace_catalog::key::{PersonalKey, ProjectKeyForm};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, Catalog, ChangeError, Level, PageRequest, ProjectKeys};
use millrace_organizations::{
    BootstrapOptions, Organizations, PersonalKeys, Projects, Users, bootstrap, is_bootstrapped,
};

on_both!(
    an_empty_catalog_is_filled_once,
    concurrent_starts_make_one_organization,
    chosen_keys_are_used,
    bootstrap_does_nothing_if_organizations_exist,
    a_malformed_option_leaves_the_catalog_empty,
);

async fn open(database: &TestDatabase) -> Catalog {
    Catalog::open(database.url()).await.unwrap()
}

async fn an_empty_catalog_is_filled_once(database: TestDatabase) {
    let catalog = open(&database).await;
    assert!(!is_bootstrapped(&catalog).await.unwrap());
    let options = BootstrapOptions::default();
    let made = bootstrap(&catalog, options.clone()).await.unwrap().unwrap();
    assert!(is_bootstrapped(&catalog).await.unwrap());
    assert_eq!(made.owner_email, "owner@localhost");
    assert_eq!(
        ProjectKeyForm::of(&made.project_api_key),
        ProjectKeyForm::Ours
    );
    let caller = PersonalKeys::new(&catalog)
        .authenticate(made.personal_api_key.expose())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(caller.user.email, "owner@localhost");
    assert_eq!(caller.scopes.as_slice(), ["*"]);
    let all = PageRequest {
        limit: 10,
        offset: 0,
    };
    let page = Organizations::new(&catalog)
        .list_of(&caller, all)
        .await
        .unwrap();
    assert_eq!((page.count, page.rows.len()), (1, 1));
    let seen = &page.rows[0];
    assert_eq!(seen.organization.id, made.organization_id);
    assert_eq!(seen.organization.id.get_version_num(), 7);
    assert_eq!(seen.organization.name, "Default organization");
    assert_eq!(seen.organization.slug, "default-organization");
    assert_eq!(
        (seen.membership_level, seen.organization.member_count),
        (Level::Owner, 1)
    );
    assert_eq!(seen.projects[0].name, "Default project");
    assert_eq!(seen.projects[0].id, made.project_id.0);
    assert!(bootstrap(&catalog, options).await.unwrap().is_none());
    assert_eq!(
        Organizations::new(&catalog).list_all().await.unwrap().len(),
        1
    );
}

async fn concurrent_starts_make_one_organization(database: TestDatabase) {
    let starting: Vec<_> = (0..8)
        .map(|_| {
            let url = database.url().to_owned();
            tokio::spawn(async move {
                let catalog = Catalog::open(&url).await.unwrap();
                bootstrap(&catalog, BootstrapOptions::default())
                    .await
                    .unwrap()
            })
        })
        .collect();
    let mut made = 0;
    for start in starting {
        made += usize::from(start.await.unwrap().is_some());
    }
    assert_eq!(made, 1);
    let catalog = open(&database).await;
    assert_eq!(
        Organizations::new(&catalog).list_all().await.unwrap().len(),
        1
    );
    assert_eq!(
        Projects::new(&catalog).list_all(None).await.unwrap().len(),
        1
    );
    assert_eq!(Users::new(&catalog).list().await.unwrap().len(), 1);
    assert_eq!(
        PersonalKeys::new(&catalog).list(None).await.unwrap().len(),
        1
    );
}

async fn chosen_keys_are_used(database: TestDatabase) {
    let catalog = open(&database).await;
    let mine = PersonalKey::generate().unwrap();
    let options = BootstrapOptions {
        owner_email: "Ann@Example.com".to_owned(),
        project_key: Some("sTMFPsFhdP1Ssg".to_owned()),
        personal_key: Some(mine.clone()),
    };
    let made = bootstrap(&catalog, options).await.unwrap().unwrap();
    assert_eq!(made.project_api_key, "sTMFPsFhdP1Ssg");
    assert!(
        ProjectKeys::new(&catalog)
            .find("sTMFPsFhdP1Ssg")
            .await
            .unwrap()
            .is_some()
    );
    let caller = PersonalKeys::new(&catalog)
        .authenticate(mine.expose())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(caller.user.email, "ann@example.com");
}

async fn bootstrap_does_nothing_if_organizations_exist(database: TestDatabase) {
    let catalog = open(&database).await;
    Organizations::new(&catalog)
        .create(&Actor::system(), "Ours", None)
        .await
        .unwrap();
    assert!(is_bootstrapped(&catalog).await.unwrap());
    assert!(
        bootstrap(&catalog, BootstrapOptions::default())
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(
        Organizations::new(&catalog).list_all().await.unwrap().len(),
        1
    );
    let deleted = "DELETE FROM organizations";
    database.execute(deleted).await.unwrap();
    assert!(
        is_bootstrapped(&catalog).await.unwrap(),
        "it was used all the same"
    );
}

async fn a_malformed_option_leaves_the_catalog_empty(database: TestDatabase) {
    let catalog = open(&database).await;
    for (email, key) in [
        ("nobody", None),
        ("a@b", Some("phx_oops")),
        ("a@b", Some("a b")),
    ] {
        let options = BootstrapOptions {
            owner_email: email.to_owned(),
            project_key: key.map(str::to_owned),
            personal_key: None,
        };
        let error = bootstrap(&catalog, options).await.unwrap_err();
        assert!(
            matches!(error, ChangeError::BadEmail(_) | ChangeError::BadKey(_)),
            "{error:?}"
        );
    }
    assert!(
        bootstrap(&catalog, BootstrapOptions::default())
            .await
            .unwrap()
            .is_some()
    );
}
