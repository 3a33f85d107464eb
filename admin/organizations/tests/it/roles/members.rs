//! Members of roles.

use super::{INVALID, MISSING, give, holders, member, role};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Level, Role};
use millrace_organizations::testing::test_env::{TestEnv, violation};
use millrace_organizations::{Members, Roles};
use uuid::Uuid;

on_both!(
    members_get_a_role_once_and_can_lose_it,
    only_members_get_a_role,
    a_member_who_leaves_loses_the_role,
    members_of_a_deleted_role_stay_in_the_organization,
    parallel_additions_of_one_member_to_a_role_leave_one,
);

async fn members_get_a_role_once_and_can_lose_it(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, owner, here) = (&env.catalog, &env.owner, env.organization);
    let (engineers, others) = (role(&env, "Engineers").await, role(&env, "Others").await);
    let bob = member(&env, "bob", Level::Member).await;
    let given = give(&env, &engineers, &bob).await.unwrap();
    assert_eq!(
        (&given.member.user, given.record.role_id),
        (&bob, engineers.id)
    );
    assert_eq!(violation(give(&env, &engineers, &bob).await), INVALID);
    give(&env, &engineers, &env.ann).await.unwrap();
    give(&env, &others, &bob).await.unwrap();
    assert_eq!(holders(&env, &engineers).await, ["bob", "ann"]);
    let seen = Roles::new(catalog)
        .get(here, engineers.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((seen.members.len(), &seen.members[0]), (2, &given));
    let id = given.record.id;
    let one = |role: &Role| Roles::new(catalog).member(here, role.id, id);
    assert_eq!(one(&engineers).await.unwrap(), Some(given));
    assert_eq!(one(&others).await.unwrap(), None);
    let elsewhere = Roles::new(catalog)
        .remove_member(owner, here, others.id, id)
        .await;
    assert_eq!(violation(elsewhere), MISSING);
    Roles::new(catalog)
        .remove_member(owner, here, engineers.id, id)
        .await
        .unwrap();
    let again = Roles::new(catalog)
        .remove_member(owner, here, engineers.id, id)
        .await;
    assert_eq!(violation(again), MISSING);
    assert_eq!(holders(&env, &engineers).await, ["ann"]);
    assert_eq!(holders(&env, &others).await, ["bob"]);
    let change = &env.newest_entry().await.detail.changes[0];
    assert_eq!(
        (&*change.field, &*change.action, &change.before),
        ("members", "deleted", &"bob@example.com".into())
    );
}

async fn only_members_get_a_role(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, owner, here) = (&env.catalog, &env.owner, env.organization);
    let engineers = role(&env, "Engineers").await;
    let stranger = env.user("stranger").await;
    let (known, unknown) = (stranger.uuid, Uuid::now_v7());
    for uuid in [known, unknown] {
        let given = Roles::new(catalog)
            .add_member(owner, here, engineers.id, uuid)
            .await;
        assert_eq!(violation(given), INVALID);
    }
    let ann = env.ann.uuid;
    let given = Roles::new(catalog)
        .add_member(owner, here, unknown, ann)
        .await;
    assert_eq!(violation(given), MISSING);
    assert!(holders(&env, &engineers).await.is_empty());
}

async fn a_member_who_leaves_loses_the_role(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, owner, here) = (&env.catalog, &env.owner, env.organization);
    let engineers = role(&env, "Engineers").await;
    let bob = member(&env, "bob", Level::Member).await;
    give(&env, &engineers, &bob).await.unwrap();
    Members::new(catalog)
        .remove(owner, here, bob.uuid)
        .await
        .unwrap();
    assert!(holders(&env, &engineers).await.is_empty());
    catalog
        .add_member(here, bob.id, Level::Member)
        .await
        .unwrap();
    assert!(holders(&env, &engineers).await.is_empty());
}

async fn members_of_a_deleted_role_stay_in_the_organization(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, owner, here) = (&env.catalog, &env.owner, env.organization);
    let engineers = role(&env, "Engineers").await;
    give(&env, &engineers, &env.ann).await.unwrap();
    Roles::new(catalog)
        .delete(owner, here, engineers.id)
        .await
        .unwrap();
    assert_eq!(
        violation(Roles::new(catalog).delete(owner, here, engineers.id).await),
        MISSING
    );
    assert_eq!(
        Roles::new(catalog).get(here, engineers.id).await.unwrap(),
        None
    );
    assert!(
        Members::new(catalog)
            .get(here, env.ann.uuid)
            .await
            .unwrap()
            .is_some()
    );
    role(&env, "Engineers").await;
}

async fn parallel_additions_of_one_member_to_a_role_leave_one(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let engineers = role(&env, "Engineers").await;
    let gifts: Vec<_> = (0..10)
        .map(|_| {
            let (catalog, owner) = (env.catalog.clone(), env.owner.clone());
            let (here, id, uuid) = (env.organization, engineers.id, env.ann.uuid);
            tokio::spawn(async move {
                Roles::new(&catalog)
                    .add_member(&owner, here, id, uuid)
                    .await
            })
        })
        .collect();
    let mut given = 0;
    for gift in gifts {
        match gift.await.unwrap() {
            Ok(_) => given += 1,
            refused => assert_eq!(violation(refused), INVALID),
        }
    }
    assert_eq!((given, holders(&env, &engineers).await.len()), (1, 1));
}
