//! Roles and their members.

use millrace_catalog::testing::lists::add_members;
use millrace_catalog::testing::{TestDatabase, numbers, random_uuid};
use millrace_catalog::{
    Activity, ActivityScope, Actor, ChangeError, FlagsAccess, Level, PageRequest, Role, User,
};
use millrace_organizations::testing::test_env::{FIRST, TestEnv, actor, blame, field};
use millrace_organizations::{
    Members, NewRole, Organizations, RoleChange, RoleFilter, RoleMember, Roles,
};
use uuid::Uuid;

on_both!(
    a_role_is_returned_with_its_first_members,
    a_role_is_made_and_read,
    names_of_roles_are_unique_in_any_case,
    changes_of_roles_are_logged_and_unchanged_values_are_not,
    roles_are_filtered_by_their_fields,
    members_get_a_role_once_and_can_lose_it,
    only_members_get_a_role,
    a_member_who_leaves_loses_the_role,
    members_of_a_deleted_role_stay_in_the_organization,
    administrators_change_roles_and_members_do_not,
    roles_are_hidden_from_other_organizations,
    parallel_additions_of_one_member_to_a_role_leave_one,
    lists_of_roles_and_of_their_members_take_three_statements,
);

const MISSING: (&str, Option<String>) = ("not_found", None);
const INVALID: (&str, Option<String>) = ("invalid_input", None);

async fn role(env: &TestEnv, name: &str) -> Role {
    let new = NewRole::named(name);
    let made = Roles::new(&env.catalog).create(&env.owner, env.organization, new);
    made.await.unwrap().role
}

async fn member(env: &TestEnv, name: &str, level: Level) -> User {
    let user = env.user(name).await;
    let added = env.catalog.add_member(env.organization, user.id, level);
    added.await.unwrap();
    user
}

async fn give(env: &TestEnv, role: &Role, user: &User) -> Result<RoleMember, ChangeError> {
    let (catalog, here) = (&env.catalog, env.organization);
    Roles::new(catalog)
        .add_member(&env.owner, here, role.id, user.uuid)
        .await
}

/// First names of a role's members.
async fn holders(env: &TestEnv, role: &Role) -> Vec<String> {
    let page = Roles::new(&env.catalog).members(env.organization, role.id, FIRST);
    let page = page.await.unwrap().unwrap();
    assert_eq!(page.count, page.rows.len() as u64);
    page.rows
        .into_iter()
        .map(|row| row.member.user.first_name)
        .collect()
}

fn rename(name: &str) -> RoleChange {
    RoleChange {
        name: Some(name.to_owned()),
        ..RoleChange::default()
    }
}

async fn a_role_is_made_and_read(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let new = NewRole {
        feature_flags_access_level: FlagsAccess::View,
        ..NewRole::named(" Engineers ")
    };
    let made = Roles::new(catalog)
        .create(&env.owner, here, new)
        .await
        .unwrap();
    assert_eq!(made.role.name, "Engineers");
    assert_eq!(made.role.feature_flags_access_level.number(), 21);
    assert_eq!(made.created_by.as_ref(), Some(&env.ann));
    assert!(made.members.is_empty());
    assert_eq!(
        Roles::new(catalog).get(here, made.role.id).await.unwrap(),
        Some(made.clone())
    );
    let by_operator = NewRole::named("Operators");
    let by_operator = Roles::new(catalog)
        .create(&Actor::command_line(), here, by_operator)
        .await;
    let by_operator = by_operator.unwrap();
    assert_eq!(by_operator.created_by, None);
    assert_eq!(
        by_operator.role.feature_flags_access_level,
        FlagsAccess::Edit
    );
    let all = Roles::new(catalog)
        .list(here, &RoleFilter::default(), FIRST)
        .await
        .unwrap();
    assert_eq!((all.count, all.rows), (2, vec![made.clone(), by_operator]));
    let entries = env.entries(ActivityScope::Role).await;
    let entry = entries.last().unwrap();
    assert_eq!(
        (entry.activity, &*entry.item_id, &*entry.detail.name),
        (Activity::Created, &*made.role.id.to_string(), "Engineers")
    );
}

async fn names_of_roles_are_unique_in_any_case(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, owner, here) = (&env.catalog, &env.owner, env.organization);
    let artists = role(&env, "Künstler").await;
    let others = role(&env, "Others").await;
    let table = [
        ("", field("blank", "name")),
        (&*"x".repeat(201), field("max_length", "name")),
        ("Künstler", field("unique", "name")),
        ("KÜNSTLER ", field("unique", "name")),
    ];
    for (name, expected) in table {
        let made = Roles::new(catalog)
            .create(owner, here, NewRole::named(name))
            .await;
        assert_eq!(blame(made), expected, "{name}");
        let renamed = Roles::new(catalog)
            .update(owner, here, others.id, rename(name))
            .await;
        assert_eq!(blame(renamed), expected, "{name}");
    }
    for name in ["Künstler", "künstler"] {
        let kept = Roles::new(catalog)
            .update(owner, here, artists.id, rename(name))
            .await;
        assert_eq!(kept.unwrap().role.name, name);
    }
    let there = Organizations::new(catalog)
        .create(owner, "Other", Some(env.ann.id))
        .await;
    let there = there.unwrap().id;
    Roles::new(catalog)
        .create(owner, there, NewRole::named("Künstler"))
        .await
        .unwrap();
}

async fn changes_of_roles_are_logged_and_unchanged_values_are_not(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, owner, here) = (&env.catalog, &env.owner, env.organization);
    let made = role(&env, "Engineers").await;
    let change = RoleChange {
        name: Some("Makers".to_owned()),
        feature_flags_access_level: Some(FlagsAccess::View),
    };
    for _ in 0..2 {
        let changed = Roles::new(catalog)
            .update(owner, here, made.id, change.clone())
            .await;
        assert_eq!(changed.unwrap().role.name, "Makers");
    }
    give(&env, &made, &env.ann).await.unwrap();
    Roles::new(catalog)
        .delete(owner, here, made.id)
        .await
        .unwrap();
    let entries = env.entries(ActivityScope::Role).await;
    let told: Vec<_> = entries
        .iter()
        .map(|entry| {
            let changes = entry.detail.changes.iter();
            let fields = changes.map(|change| format!("{} {}", change.field, change.after));
            (entry.activity, fields.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let expected = [
        (Activity::Deleted, ""),
        (Activity::Updated, r#"members "ann@example.com""#),
        (
            Activity::Updated,
            r#"name "Makers", feature_flags_access_level 21"#,
        ),
        (
            Activity::Created,
            r#"name "Engineers", feature_flags_access_level 37"#,
        ),
    ];
    assert_eq!(
        told,
        expected.map(|(activity, text)| (activity, text.to_owned()))
    );
}

async fn roles_are_filtered_by_their_fields(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let first = role(&env, "First").await;
    role(&env, "Second").await;
    let view = RoleChange {
        feature_flags_access_level: Some(FlagsAccess::View),
        ..RoleChange::default()
    };
    Roles::new(catalog)
        .update(&env.owner, here, first.id, view)
        .await
        .unwrap();
    let filter = |change: &dyn Fn(&mut RoleFilter)| {
        let mut filter = RoleFilter::default();
        change(&mut filter);
        filter
    };
    let table = [
        (filter(&|_| ()), "First Second"),
        (filter(&|f| f.id = Some(first.id)), "First"),
        (filter(&|f| f.name = Some("Second".to_owned())), "Second"),
        (filter(&|f| f.name = Some("Third".to_owned())), ""),
        (
            filter(&|f| f.feature_flags_access_level = Some(FlagsAccess::View)),
            "First",
        ),
    ];
    for (filter, expected) in table {
        let page = Roles::new(catalog)
            .list(here, &filter, FIRST)
            .await
            .unwrap();
        let names: Vec<_> = page.rows.iter().map(|seen| &*seen.role.name).collect();
        assert_eq!(names.join(" "), expected, "{filter:?}");
        assert_eq!(page.count, names.len() as u64);
    }
}

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
    assert_eq!(blame(give(&env, &engineers, &bob).await), INVALID);
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
    assert_eq!(blame(elsewhere), MISSING);
    Roles::new(catalog)
        .remove_member(owner, here, engineers.id, id)
        .await
        .unwrap();
    let again = Roles::new(catalog)
        .remove_member(owner, here, engineers.id, id)
        .await;
    assert_eq!(blame(again), MISSING);
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
        assert_eq!(blame(given), INVALID);
    }
    let ann = env.ann.uuid;
    let given = Roles::new(catalog)
        .add_member(owner, here, unknown, ann)
        .await;
    assert_eq!(blame(given), MISSING);
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
        blame(Roles::new(catalog).delete(owner, here, engineers.id).await),
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
        assert_eq!(blame(made), forbidden);
        let renamed = Roles::new(catalog)
            .update(&by, here, id, rename("Mine"))
            .await;
        assert_eq!(blame(renamed), forbidden);
        let given = Roles::new(catalog).add_member(&by, here, id, uuid).await;
        assert_eq!(blame(given), forbidden);
        let taken = Roles::new(catalog).remove_member(&by, here, id, held).await;
        assert_eq!(blame(taken), forbidden);
        assert_eq!(
            blame(Roles::new(catalog).delete(&by, here, id).await),
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
    assert_eq!(blame(renamed), MISSING);
    let given = Roles::new(catalog)
        .add_member(owner, there, ours.id, ann)
        .await;
    assert_eq!(blame(given), MISSING);
    let taken = Roles::new(catalog)
        .remove_member(owner, there, ours.id, held)
        .await;
    assert_eq!(blame(taken), MISSING);
    assert_eq!(
        blame(Roles::new(catalog).delete(owner, there, ours.id).await),
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
            refused => assert_eq!(blame(refused), INVALID),
        }
    }
    assert_eq!((given, holders(&env, &engineers).await.len()), (1, 1));
}

async fn lists_of_roles_and_of_their_members_take_three_statements(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let here = env.organization;
    let first = role(&env, "Engineers").await;
    add_members(&database, 1000).await;
    let (numbers, uuid) = (numbers(999), random_uuid(&database));
    let roles = format!(
        "INSERT INTO roles (id, organization_id, name, name_key, feature_flags_access_level, \
         created_by_id, created_at) {numbers} SELECT {uuid}, organizations.id, 'r' || i, \
         'r' || i, 37, users.id, 1 + i / 2 FROM n, organizations, users \
         WHERE users.email = 'ann@example.com'"
    );
    let everybody_everywhere = format!(
        "INSERT INTO role_memberships (id, role_id, membership_id, joined_at, updated_at) \
         SELECT {uuid}, roles.id, organization_memberships.id, 1, 1 \
         FROM roles, organization_memberships \
         WHERE roles.name IN ('Engineers', 'r1')"
    );
    database.execute(&roles).await.unwrap();
    database.execute(&everybody_everywhere).await.unwrap();
    let (catalog, sent) = env.catalog.counted();
    let page = |offset| PageRequest { limit: 500, offset };
    let (all, mut seen) = (RoleFilter::default(), Vec::new());
    for offset in [0, 500] {
        let part = Roles::new(&catalog)
            .list(here, &all, page(offset))
            .await
            .unwrap();
        let statements = sent.take();
        assert!(statements.len() <= 3, "{statements:#?}");
        assert_eq!((part.count, part.rows.len()), (1000, 500));
        seen.extend(part.rows);
    }
    assert!(seen.is_sorted_by_key(|seen| (seen.role.created_at, seen.role.id)));
    assert!(
        seen.iter()
            .all(|seen| seen.created_by.as_ref() == Some(&env.ann))
    );
    let held: usize = seen.iter().map(|seen| seen.members.len()).sum();
    assert_eq!(held, 2 * 1000, "of 1001 each");
    let part = Roles::new(&catalog)
        .members(here, first.id, page(1000))
        .await;
    let part = part.unwrap().unwrap();
    assert!(sent.take().len() <= 3);
    assert_eq!((part.count, part.rows.len()), (1001, 1));
}

async fn a_role_is_returned_with_its_first_members(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    add_members(&database, 1_010).await;
    let mut roles = Vec::new();
    for number in 0..20 {
        let new = NewRole::named(&format!("r{number:02}"));
        let made = Roles::new(catalog)
            .create(&env.owner, here, new)
            .await
            .unwrap();
        roles.push(made.role.id);
    }
    let uuid = random_uuid(&database);
    // The members that joined the organization last got the roles first.
    let everybody = format!(
        "INSERT INTO role_memberships (id, role_id, membership_id, joined_at, updated_at) \
         SELECT {uuid}, roles.id, organization_memberships.id, \
         10000 - organization_memberships.joined_at, 1 FROM roles, organization_memberships \
         WHERE organization_memberships.joined_at <= 1010"
    );
    database.execute(&everybody).await.unwrap();
    let first = |members: &[RoleMember], count: i64| {
        let emails = members
            .iter()
            .map(|member| member.member.user.email.clone());
        let expected = (0..count).map(|before| format!("crowd{}@example.com", 1010 - before));
        assert_eq!(emails.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    };
    let one = Roles::new(catalog)
        .get(here, roles[7])
        .await
        .unwrap()
        .unwrap();
    first(&one.members, 1_000);
    // However long the pages are, each has at most 2 000 members, and no role is left out.
    for limit in [1, 2, 3, 20] {
        let mut read = Vec::new();
        while read.len() < roles.len() {
            let offset = read.len() as u64;
            let page = PageRequest { limit, offset };
            let page = Roles::new(catalog)
                .list(here, &RoleFilter::default(), page)
                .await;
            let rows = page.unwrap().rows;
            assert!((1..=limit.min(2)).contains(&(rows.len() as u64)), "{limit}");
            for row in rows {
                first(&row.members, 1_000);
                read.push(row.role.id);
            }
        }
        assert_eq!(read, roles);
    }
    let all = Roles::new(catalog).members(here, roles[7], FIRST);
    assert_eq!(all.await.unwrap().unwrap().count, 1_010);
}
