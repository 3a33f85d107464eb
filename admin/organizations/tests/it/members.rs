//! Members: lists, levels, removal.

use Level::{Administrator, Member, Owner};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::testing::lists::add_members;
use millrace_catalog::{
    Activity, ActivityScope, Actor, Catalog, ChangeError, Level, PageRequest, User,
};
use millrace_organizations::Members;
use millrace_organizations::testing::test_env::{FIRST, TestEnv, actor, violation};
use uuid::Uuid;

on_both!(
    a_list_of_1000_members_takes_three_statements,
    a_member_is_found_by_address_and_by_uuid,
    levels_change_by_the_rules,
    members_are_removed_by_the_rules,
    the_last_owner_can_neither_be_demoted_nor_leave,
    parallel_demotions_and_departures_leave_an_owner,
    the_last_of_50_parallel_demotions_is_refused,
);

const FORBIDDEN: &str = "permission_denied";

/// Adds a member of this level.
async fn add(env: &TestEnv, name: &str, level: Level) -> User {
    let user = env.user(name).await;
    let catalog = &env.catalog;
    catalog
        .add_member(env.organization, user.id, level)
        .await
        .unwrap();
    user
}

async fn levels(env: &TestEnv) -> Vec<(String, Level)> {
    let page = Members::new(&env.catalog)
        .list(env.organization, None, FIRST)
        .await;
    let rows = page.unwrap().rows.into_iter();
    rows.map(|row| (row.user.first_name, row.membership.level))
        .collect()
}

/// Member count of the organization.
async fn counted(env: &TestEnv) -> u64 {
    let page = Members::new(&env.catalog)
        .list(env.organization, None, FIRST)
        .await;
    page.unwrap().count
}

async fn a_list_of_1000_members_takes_three_statements(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    add_members(&database, 1000).await;
    let (catalog, sent) = env.catalog.counted();
    let mut seen = Vec::new();
    for offset in [0, 500, 1000] {
        let page = PageRequest { limit: 500, offset };
        let part = Members::new(&catalog)
            .list(env.organization, None, page)
            .await
            .unwrap();
        let statements = sent.take();
        assert!(statements.len() <= 3, "{statements:#?}");
        assert_eq!(part.count, 1001);
        seen.extend(part.rows);
    }
    assert_eq!(seen.len(), 1001);
    let order = |member: &millrace_organizations::Member| {
        (member.membership.joined_at, member.membership.id)
    };
    assert!(seen.is_sorted_by_key(order));
    assert!(
        seen.iter()
            .all(|member| member.membership.user_id == member.user.id)
    );
    let email = Some(" Crowd7@example.com");
    let found = Members::new(&catalog)
        .list(env.organization, email, FIRST)
        .await
        .unwrap();
    assert_eq!((found.count, sent.take().len()), (1, 1));
    assert_eq!(found.rows[0].user.email, "crowd7@example.com");
}

async fn a_member_is_found_by_address_and_by_uuid(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let stranger = env.user("stranger").await;
    let (catalog, here) = (&env.catalog, env.organization);
    let me = Members::new(catalog)
        .get(here, env.ann.uuid)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((me.user.id, me.membership.level), (env.ann.id, Owner));
    assert!(
        Members::new(catalog)
            .get(here, stranger.uuid)
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        Members::new(catalog)
            .get(Uuid::now_v7(), env.ann.uuid)
            .await
            .unwrap()
            .is_none()
    );
    let none = Members::new(catalog)
        .list(here, Some("stranger@example.com"), FIRST)
        .await;
    assert_eq!(none.unwrap().count, 0);
}

async fn levels_change_by_the_rules(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let owner = add(&env, "owner", Owner).await;
    let admin = add(&env, "admin", Administrator).await;
    let second = add(&env, "second", Administrator).await;
    let member = add(&env, "member", Member).await;
    let stranger = env.user("stranger").await;
    let table = [
        (&owner, &owner, Administrator, Err(FORBIDDEN)),
        (&member, &member, Administrator, Err(FORBIDDEN)),
        (&member, &second, Member, Err(FORBIDDEN)),
        (&stranger, &member, Administrator, Err(FORBIDDEN)),
        (&admin, &owner, Member, Err(FORBIDDEN)),
        (&admin, &member, Owner, Err(FORBIDDEN)),
        (&admin, &stranger, Member, Err("not_found")),
        (&admin, &member, Administrator, Ok(())),
        (&admin, &second, Member, Ok(())),
        (&owner, &admin, Owner, Ok(())),
        (&owner, &env.ann, Member, Ok(())),
        (&owner, &env.ann, Member, Ok(())),
    ];
    for (number, (by, whom, level, expected)) in table.into_iter().enumerate() {
        let set = Members::new(catalog)
            .set_level(&actor(by), here, whom.uuid, level)
            .await;
        match expected {
            Ok(()) => assert_eq!(set.unwrap().membership.level, level, "case {number}"),
            Err(code) => assert_eq!(violation(set).0, code, "case {number}"),
        }
    }
    let expected = [
        ("ann", Member),
        ("owner", Owner),
        ("admin", Owner),
        ("second", Member),
        ("member", Administrator),
    ];
    assert_eq!(
        levels(&env).await,
        expected.map(|(name, level)| (name.to_owned(), level))
    );
    let entry = env.newest_entry().await;
    assert_eq!(
        (entry.scope, entry.activity),
        (ActivityScope::Membership, Activity::Updated)
    );
    assert_eq!(entry.item_id, env.ann.uuid.to_string());
    assert_eq!(entry.user_id, Some(owner.id));
    let change = &entry.detail.changes[0];
    assert_eq!((&change.before, &change.after), (&15.into(), &1.into()));
}

async fn members_are_removed_by_the_rules(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let owner = add(&env, "owner", Owner).await;
    let admin = add(&env, "admin", Administrator).await;
    let second = add(&env, "second", Administrator).await;
    let member = add(&env, "member", Member).await;
    let other = add(&env, "other", Member).await;
    let stranger = env.user("stranger").await;
    let table = [
        (&member, &other, Err(FORBIDDEN)),
        (&stranger, &other, Err(FORBIDDEN)),
        (&admin, &owner, Err(FORBIDDEN)),
        (&admin, &stranger, Err("not_found")),
        (&member, &member, Ok(())),
        (&member, &member, Err("not_found")),
        (&admin, &other, Ok(())),
        (&admin, &second, Ok(())),
        (&owner, &env.ann, Ok(())),
        (&owner, &owner, Err("invalid_input")),
    ];
    for (number, (by, whom, expected)) in table.into_iter().enumerate() {
        let removed = Members::new(catalog)
            .remove(&actor(by), here, whom.uuid)
            .await;
        match expected {
            Ok(()) => removed.unwrap(),
            Err(code) => assert_eq!(violation(removed).0, code, "case {number}"),
        }
    }
    let names: Vec<_> = levels(&env)
        .await
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["owner", "admin"]);
    assert_eq!(counted(&env).await, 2);
    let entry = env.newest_entry().await;
    assert_eq!(
        (entry.activity, &*entry.detail.name),
        (Activity::Deleted, "ann@example.com")
    );
}

async fn the_last_owner_can_neither_be_demoted_nor_leave(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here, ann) = (&env.catalog, env.organization, env.ann.uuid);
    let operator = Actor::command_line();
    for by in [&env.owner, &operator] {
        let refused = Members::new(catalog).remove(by, here, ann).await;
        assert_eq!(violation(refused), ("invalid_input", None));
    }
    let refused = Members::new(catalog)
        .set_level(&operator, here, ann, Administrator)
        .await;
    assert_eq!(violation(refused), ("invalid_input", None));
    let second = add(&env, "second", Member).await;
    let promoted = Members::new(catalog)
        .set_level(&operator, here, second.uuid, Owner)
        .await;
    promoted.unwrap();
    Members::new(catalog)
        .remove(&env.owner, here, ann)
        .await
        .unwrap();
    assert_eq!(levels(&env).await, [("second".to_owned(), Owner)]);
}

/// Runs one of many concurrent demotions and removals.
async fn change_someone(
    catalog: Catalog,
    here: Uuid,
    owners: Vec<User>,
    number: usize,
) -> Result<(), ChangeError> {
    let by = &owners[number % owners.len()];
    let whom = &owners[(number * 7 + number / owners.len()) % owners.len()];
    let by = if number.is_multiple_of(11) {
        Actor::command_line()
    } else {
        actor(by)
    };
    if number.is_multiple_of(3) {
        return Members::new(&catalog).remove(&by, here, whom.uuid).await;
    }
    let set = Members::new(&catalog).set_level(&by, here, whom.uuid, Administrator);
    set.await.map(drop)
}

async fn parallel_demotions_and_departures_leave_an_owner(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let mut owners = vec![env.ann.clone()];
    for number in 1..8 {
        owners.push(add(&env, &format!("owner{number}"), Owner).await);
    }
    let changes: Vec<_> = (0..50)
        .map(|number| {
            let (catalog, owners) = (env.catalog.clone(), owners.clone());
            tokio::spawn(change_someone(catalog, env.organization, owners, number))
        })
        .collect();
    let mut done = 0;
    for change in changes {
        match change.await.unwrap() {
            Ok(()) => done += 1,
            Err(ChangeError::Catalog(error)) => panic!("{error}"),
            Err(_) => {}
        }
    }
    let left = levels(&env).await;
    assert_eq!(counted(&env).await, left.len() as u64);
    let owners_left = left.iter().filter(|(_, level)| *level == Owner).count();
    assert!(owners_left >= 1, "{left:?}");
    assert!(done >= 1 && owners_left < owners.len(), "{done} {left:?}");
}

async fn the_last_of_50_parallel_demotions_is_refused(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let mut owners = vec![env.ann.clone()];
    for number in 1..50 {
        owners.push(add(&env, &format!("owner{number}"), Owner).await);
    }
    let demotions: Vec<_> = owners
        .into_iter()
        .map(|owner| {
            let (catalog, here) = (env.catalog.clone(), env.organization);
            tokio::spawn(async move {
                let by = Actor::command_line();
                Members::new(&catalog)
                    .set_level(&by, here, owner.uuid, Member)
                    .await
            })
        })
        .collect();
    let mut refusals = Vec::new();
    for demotion in demotions {
        if let refused @ Err(_) = demotion.await.unwrap() {
            refusals.push(violation(refused));
        }
    }
    assert_eq!(refusals, [("invalid_input", None)]);
    let left = levels(&env).await;
    let owners_left = left.iter().filter(|(_, level)| *level == Owner).count();
    assert_eq!((left.len(), owners_left), (50, 1));
}
