//! Organizations, users and projects.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, Catalog, ChangeError, PageRequest, Scopes};
use millrace_organizations::{NewPersonalKey, NewUser, Organizations, PersonalKeys, Users};

on_both!(
    slugs_stay_unique,
    callers_see_their_own_organizations_in_pages,
    a_key_for_some_organizations_sees_only_those,
    users_are_found_in_any_case,
    names_are_validated,
);

async fn user(catalog: &Catalog, email: &str) -> i64 {
    let new = NewUser {
        email: email.to_owned(),
        ..NewUser::default()
    };
    Users::new(catalog).create(new).await.unwrap().id
}

fn key_of(email: &str) -> NewPersonalKey {
    NewPersonalKey {
        email: email.to_owned(),
        label: "Test".to_owned(),
        scopes: Scopes::all(),
        expires_at: None,
        scoped_organizations: None,
    }
}

async fn slugs_stay_unique(database: TestDatabase) {
    let catalog = Catalog::open(database.url()).await.unwrap();
    let making: Vec<_> = (0..6)
        .map(|_| {
            let catalog = catalog.clone();
            tokio::spawn(async move {
                Organizations::new(&catalog)
                    .create(&Actor::system(), "Same name", None)
                    .await
            })
        })
        .collect();
    let mut slugs = Vec::new();
    for made in making {
        slugs.push(made.await.unwrap().unwrap().slug);
    }
    slugs.sort();
    slugs.dedup();
    assert_eq!(slugs.len(), 6);
    assert_eq!(slugs[0], "same-name");
    for slug in &slugs[1..] {
        let suffix = slug.strip_prefix("same-name-").unwrap();
        assert_eq!(suffix.len(), 4, "{slug}");
        assert!(
            suffix.bytes().all(|byte| byte.is_ascii_lowercase()),
            "{slug}"
        );
    }
}

async fn callers_see_their_own_organizations_in_pages(database: TestDatabase) {
    let catalog = Catalog::open(database.url()).await.unwrap();
    let ann = user(&catalog, "ann@example.com").await;
    let bob = user(&catalog, "bob@example.com").await;
    let mut ids = Vec::new();
    for name in ["One", "Two", "Three"] {
        ids.push(
            Organizations::new(&catalog)
                .create(&Actor::system(), name, Some(ann))
                .await
                .unwrap()
                .id,
        );
    }
    let foreign = Organizations::new(&catalog)
        .create(&Actor::system(), "Bob's", Some(bob))
        .await
        .unwrap()
        .id;
    let key = PersonalKeys::new(&catalog)
        .create(&Actor::system(), key_of("ann@example.com"))
        .await
        .unwrap();
    let caller = PersonalKeys::new(&catalog)
        .authenticate(key.value.expose())
        .await
        .unwrap()
        .unwrap();
    for (limit, offset, expected) in [
        (10, 0, &ids[..]),
        (2, 0, &ids[..2]),
        (2, 2, &ids[2..]),
        (2, 9, &[]),
    ] {
        let page = Organizations::new(&catalog)
            .list_of(&caller, PageRequest { limit, offset })
            .await
            .unwrap();
        let seen: Vec<_> = page.rows.iter().map(|row| row.organization.id).collect();
        assert_eq!((page.count, &seen[..]), (3, expected));
    }
    assert_eq!(
        Organizations::new(&catalog)
            .current_of(&caller)
            .await
            .unwrap(),
        Some(ids[0])
    );
    assert!(
        Organizations::new(&catalog)
            .get_of(&caller, ids[2])
            .await
            .unwrap()
            .is_some()
    );
    assert!(
        Organizations::new(&catalog)
            .get_of(&caller, foreign)
            .await
            .unwrap()
            .is_none()
    );
}

async fn a_key_for_some_organizations_sees_only_those(database: TestDatabase) {
    let catalog = Catalog::open(database.url()).await.unwrap();
    let ann = user(&catalog, "ann@example.com").await;
    let hidden = Organizations::new(&catalog)
        .create(&Actor::system(), "One", Some(ann))
        .await
        .unwrap()
        .id;
    let seen = Organizations::new(&catalog)
        .create(&Actor::system(), "Two", Some(ann))
        .await
        .unwrap()
        .id;
    let mut new = key_of("ann@example.com");
    new.scoped_organizations = Some(vec![seen]);
    let key = PersonalKeys::new(&catalog)
        .create(&Actor::system(), new)
        .await
        .unwrap();
    let caller = PersonalKeys::new(&catalog)
        .authenticate(key.value.expose())
        .await
        .unwrap()
        .unwrap();
    let all = PageRequest {
        limit: 10,
        offset: 0,
    };
    assert_eq!(
        Organizations::new(&catalog)
            .list_of(&caller, all)
            .await
            .unwrap()
            .count,
        1
    );
    assert_eq!(
        Organizations::new(&catalog)
            .current_of(&caller)
            .await
            .unwrap(),
        Some(seen)
    );
    assert!(
        Organizations::new(&catalog)
            .get_of(&caller, hidden)
            .await
            .unwrap()
            .is_none()
    );
}

async fn users_are_found_in_any_case(database: TestDatabase) {
    let catalog = Catalog::open(database.url()).await.unwrap();
    user(&catalog, "Ann@Example.com").await;
    assert!(
        Users::new(&catalog)
            .by_email(" ANN@example.COM")
            .await
            .unwrap()
            .is_some()
    );
    assert!(
        Users::new(&catalog)
            .by_email("bob@example.com")
            .await
            .unwrap()
            .is_none()
    );
    let again = NewUser {
        email: "aNN@example.com".to_owned(),
        ..NewUser::default()
    };
    let error = Users::new(&catalog).create(again).await.unwrap_err();
    assert!(matches!(error, ChangeError::EmailTaken(_)), "{error:?}");
}

async fn names_are_validated(database: TestDatabase) {
    let catalog = Catalog::open(database.url()).await.unwrap();
    for name in ["", "  ", &"x".repeat(65)] {
        let error = Organizations::new(&catalog)
            .create(&Actor::system(), name, None)
            .await
            .unwrap_err();
        assert!(matches!(error, ChangeError::BadName { .. }), "{error:?}");
    }
    assert!(
        Organizations::new(&catalog)
            .list_all()
            .await
            .unwrap()
            .is_empty()
    );
    Organizations::new(&catalog)
        .create(&Actor::system(), &*"ü".repeat(64), None)
        .await
        .unwrap();
}
