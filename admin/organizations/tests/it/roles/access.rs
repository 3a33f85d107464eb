//! Callers who may read or change roles.

use super::{MISSING, give, member, rename, role};
use millrace_catalog::Level;
use millrace_catalog::testing::TestDatabase;
use millrace_organizations::testing::test_env::{FIRST, TestEnv, actor, violation};
use millrace_organizations::{NewRole, Organizations, RoleFilter, Roles};

on_both!(
    administrators_change_roles_and_members_do_not,
    roles_are_hidden_from_other_organizations,
);

async fn administrators_change_roles_and_members_do_not(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let engineers = role(&env, "Engineers").await;
    let held = give(&env, &engineers, &env.ann).await.unwrap();
    let held = held.record.id;
    let administrator = member(&env, "administrator", Level::Administrator).await;
    let bob = member(&env, "bob", Level::Member).await;
    let stranger = env.user("stranger").await;
    let forbidden = ("permission_denied", None);
    for by in [&bob, &stranger] {
        let (id, uuid, by) = (engineers.id, by.uuid, actor(by));
        let made = Roles::new(catalog)
            .create(&by, here, NewRole::named("Mine"))
            .await;
        assert_eq!(violation(made), forbidden);
        let renamed = Roles::new(catalog)
            .update(&by, here, id, rename("Mine"))
            .await;
        assert_eq!(violation(renamed), forbidden);
        let given = Roles::new(catalog).add_member(&by, here, id, uuid).await;
        assert_eq!(violation(given), forbidden);
        let taken = Roles::new(catalog).remove_member(&by, here, id, held).await;
        assert_eq!(violation(taken), forbidden);
        assert_eq!(
            violation(Roles::new(catalog).delete(&by, here, id).await),
            forbidden
        );
    }
    let by = actor(&administrator);
    let given = Roles::new(catalog)
        .add_member(&by, here, engineers.id, bob.uuid)
        .await;
    given.unwrap();
    let taken = Roles::new(catalog)
        .remove_member(&by, here, engineers.id, held)
        .await;
    taken.unwrap();
    Roles::new(catalog)
        .delete(&by, here, engineers.id)
        .await
        .unwrap();
}

async fn roles_are_hidden_from_other_organizations(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, owner) = (&env.catalog, &env.owner);
    let made = Organizations::new(catalog)
        .create(owner, "Other", Some(env.ann.id))
        .await;
    let there = made.unwrap().id;
    let ours = role(&env, "Engineers").await;
    let held = give(&env, &ours, &env.ann).await.unwrap().record.id;
    let ann = env.ann.uuid;
    assert_eq!(Roles::new(catalog).get(there, ours.id).await.unwrap(), None);
    assert_eq!(
        Roles::new(catalog)
            .member(there, ours.id, held)
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        Roles::new(catalog)
            .members(there, ours.id, FIRST)
            .await
            .unwrap(),
        None
    );
    let page = Roles::new(catalog)
        .list(there, &RoleFilter::default(), FIRST)
        .await;
    assert_eq!(page.unwrap().count, 0);
    let renamed = Roles::new(catalog)
        .update(owner, there, ours.id, rename("Theirs"))
        .await;
    assert_eq!(violation(renamed), MISSING);
    let given = Roles::new(catalog)
        .add_member(owner, there, ours.id, ann)
        .await;
    assert_eq!(violation(given), MISSING);
    let taken = Roles::new(catalog)
        .remove_member(owner, there, ours.id, held)
        .await;
    assert_eq!(violation(taken), MISSING);
    assert_eq!(
        violation(Roles::new(catalog).delete(owner, there, ours.id).await),
        MISSING
    );
    Organizations::new(catalog)
        .delete(owner, env.organization)
        .await
        .unwrap();
    assert_eq!(
        Roles::new(catalog)
            .get(env.organization, ours.id)
            .await
            .unwrap(),
        None
    );
}
