//! Roles and who has them.

use crate::crowd::{add_members, numbers, random_uuid};
use crate::stand::{FIRST, Stand, actor, blame, field};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Activity, ActivityScope, Actor, ChangeError, FlagsAccess, Level, NewRole, PageRequest, Role,
    RoleChange, RoleFilter, RoleMember, User,
};
use uuid::Uuid;

on_both!(
    a_role_is_answered_with_its_first_members,
    a_role_is_made_and_read,
    a_name_is_one_roles_in_whatever_case,
    what_changes_is_logged_and_what_is_the_same_is_not,
    roles_are_filtered_by_their_fields,
    members_get_a_role_once_and_lose_it,
    only_members_get_a_role,
    a_role_goes_from_who_leaves,
    a_deleted_role_leaves_its_members,
    administrators_change_roles_and_members_do_not,
    roles_are_their_organizations_only,
    parallel_gifts_of_a_role_leave_one,
    lists_of_roles_and_of_their_members_take_three_statements,
);

const MISSING: (&str, Option<String>) = ("not_found", None);
const INVALID: (&str, Option<String>) = ("invalid_input", None);

async fn role(stand: &Stand, name: &str) -> Role {
    let new = NewRole::named(name);
    let made = stand
        .catalog
        .create_role(&stand.owner, stand.organization, new);
    made.await.unwrap().role
}

async fn member(stand: &Stand, name: &str, level: Level) -> User {
    let user = stand.user(name).await;
    let added = stand.catalog.add_member(stand.organization, user.id, level);
    added.await.unwrap();
    user
}

async fn give(stand: &Stand, role: &Role, user: &User) -> Result<RoleMember, ChangeError> {
    let (catalog, here) = (&stand.catalog, stand.organization);
    catalog
        .add_role_member(&stand.owner, here, role.id, user.uuid)
        .await
}

/// Who has a role, by first names.
async fn holders(stand: &Stand, role: &Role) -> Vec<String> {
    let page = stand
        .catalog
        .role_members_of(stand.organization, role.id, FIRST);
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
    let stand = Stand::new(&database).await;
    let (catalog, here) = (&stand.catalog, stand.organization);
    let new = NewRole {
        feature_flags_access_level: FlagsAccess::View,
        ..NewRole::named(" Engineers ")
    };
    let made = catalog.create_role(&stand.owner, here, new).await.unwrap();
    assert_eq!(made.role.name, "Engineers");
    assert_eq!(made.role.feature_flags_access_level.number(), 21);
    assert_eq!(made.created_by.as_ref(), Some(&stand.ann));
    assert!(made.members.is_empty());
    assert_eq!(
        catalog.role(here, made.role.id).await.unwrap(),
        Some(made.clone())
    );
    let by_operator = NewRole::named("Operators");
    let by_operator = catalog
        .create_role(&Actor::command_line(), here, by_operator)
        .await;
    let by_operator = by_operator.unwrap();
    assert_eq!(by_operator.created_by, None);
    assert_eq!(
        by_operator.role.feature_flags_access_level,
        FlagsAccess::Edit
    );
    let all = catalog
        .roles_of(here, &RoleFilter::default(), FIRST)
        .await
        .unwrap();
    assert_eq!((all.count, all.rows), (2, vec![made.clone(), by_operator]));
    let entries = stand.entries(ActivityScope::Role).await;
    let entry = entries.last().unwrap();
    assert_eq!(
        (entry.activity, &*entry.item_id, &*entry.detail.name),
        (Activity::Created, &*made.role.id.to_string(), "Engineers")
    );
}

async fn a_name_is_one_roles_in_whatever_case(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let (catalog, owner, here) = (&stand.catalog, &stand.owner, stand.organization);
    let artists = role(&stand, "Künstler").await;
    let others = role(&stand, "Others").await;
    let table = [
        ("", field("blank", "name")),
        (&*"x".repeat(201), field("max_length", "name")),
        ("Künstler", field("unique", "name")),
        ("KÜNSTLER ", field("unique", "name")),
    ];
    for (name, expected) in table {
        let made = catalog.create_role(owner, here, NewRole::named(name)).await;
        assert_eq!(blame(made), expected, "{name}");
        let renamed = catalog
            .update_role(owner, here, others.id, rename(name))
            .await;
        assert_eq!(blame(renamed), expected, "{name}");
    }
    for name in ["Künstler", "künstler"] {
        let kept = catalog
            .update_role(owner, here, artists.id, rename(name))
            .await;
        assert_eq!(kept.unwrap().role.name, name);
    }
    let there = catalog
        .create_organization(owner, "Other", Some(stand.ann.id))
        .await;
    let there = there.unwrap().id;
    catalog
        .create_role(owner, there, NewRole::named("Künstler"))
        .await
        .unwrap();
}

async fn what_changes_is_logged_and_what_is_the_same_is_not(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let (catalog, owner, here) = (&stand.catalog, &stand.owner, stand.organization);
    let made = role(&stand, "Engineers").await;
    let change = RoleChange {
        name: Some("Makers".to_owned()),
        feature_flags_access_level: Some(FlagsAccess::View),
    };
    for _ in 0..2 {
        let changed = catalog
            .update_role(owner, here, made.id, change.clone())
            .await;
        assert_eq!(changed.unwrap().role.name, "Makers");
    }
    give(&stand, &made, &stand.ann).await.unwrap();
    catalog.delete_role(owner, here, made.id).await.unwrap();
    let entries = stand.entries(ActivityScope::Role).await;
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
    let stand = Stand::new(&database).await;
    let (catalog, here) = (&stand.catalog, stand.organization);
    let first = role(&stand, "First").await;
    role(&stand, "Second").await;
    let view = RoleChange {
        feature_flags_access_level: Some(FlagsAccess::View),
        ..RoleChange::default()
    };
    catalog
        .update_role(&stand.owner, here, first.id, view)
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
        let page = catalog.roles_of(here, &filter, FIRST).await.unwrap();
        let names: Vec<_> = page.rows.iter().map(|seen| &*seen.role.name).collect();
        assert_eq!(names.join(" "), expected, "{filter:?}");
        assert_eq!(page.count, names.len() as u64);
    }
}

async fn members_get_a_role_once_and_lose_it(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let (catalog, owner, here) = (&stand.catalog, &stand.owner, stand.organization);
    let (engineers, others) = (
        role(&stand, "Engineers").await,
        role(&stand, "Others").await,
    );
    let bob = member(&stand, "bob", Level::Member).await;
    let given = give(&stand, &engineers, &bob).await.unwrap();
    assert_eq!(
        (&given.member.user, given.record.role_id),
        (&bob, engineers.id)
    );
    assert_eq!(blame(give(&stand, &engineers, &bob).await), INVALID);
    give(&stand, &engineers, &stand.ann).await.unwrap();
    give(&stand, &others, &bob).await.unwrap();
    assert_eq!(holders(&stand, &engineers).await, ["bob", "ann"]);
    let seen = catalog.role(here, engineers.id).await.unwrap().unwrap();
    assert_eq!((seen.members.len(), &seen.members[0]), (2, &given));
    let id = given.record.id;
    let one = |role: &Role| catalog.role_member(here, role.id, id);
    assert_eq!(one(&engineers).await.unwrap(), Some(given));
    assert_eq!(one(&others).await.unwrap(), None);
    let elsewhere = catalog.remove_role_member(owner, here, others.id, id).await;
    assert_eq!(blame(elsewhere), MISSING);
    catalog
        .remove_role_member(owner, here, engineers.id, id)
        .await
        .unwrap();
    let again = catalog
        .remove_role_member(owner, here, engineers.id, id)
        .await;
    assert_eq!(blame(again), MISSING);
    assert_eq!(holders(&stand, &engineers).await, ["ann"]);
    assert_eq!(holders(&stand, &others).await, ["bob"]);
    let change = &stand.newest_entry().await.detail.changes[0];
    assert_eq!(
        (&*change.field, &*change.action, &change.before),
        ("members", "deleted", &"bob@example.com".into())
    );
}

async fn only_members_get_a_role(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let (catalog, owner, here) = (&stand.catalog, &stand.owner, stand.organization);
    let engineers = role(&stand, "Engineers").await;
    let stranger = stand.user("stranger").await;
    let (known, unknown) = (stranger.uuid, Uuid::now_v7());
    for uuid in [known, unknown] {
        let given = catalog
            .add_role_member(owner, here, engineers.id, uuid)
            .await;
        assert_eq!(blame(given), INVALID);
    }
    let ann = stand.ann.uuid;
    let given = catalog.add_role_member(owner, here, unknown, ann).await;
    assert_eq!(blame(given), MISSING);
    assert!(holders(&stand, &engineers).await.is_empty());
}

async fn a_role_goes_from_who_leaves(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let (catalog, owner, here) = (&stand.catalog, &stand.owner, stand.organization);
    let engineers = role(&stand, "Engineers").await;
    let bob = member(&stand, "bob", Level::Member).await;
    give(&stand, &engineers, &bob).await.unwrap();
    catalog.remove_member(owner, here, bob.uuid).await.unwrap();
    assert!(holders(&stand, &engineers).await.is_empty());
    catalog
        .add_member(here, bob.id, Level::Member)
        .await
        .unwrap();
    assert!(holders(&stand, &engineers).await.is_empty());
}

async fn a_deleted_role_leaves_its_members(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let (catalog, owner, here) = (&stand.catalog, &stand.owner, stand.organization);
    let engineers = role(&stand, "Engineers").await;
    give(&stand, &engineers, &stand.ann).await.unwrap();
    catalog
        .delete_role(owner, here, engineers.id)
        .await
        .unwrap();
    assert_eq!(
        blame(catalog.delete_role(owner, here, engineers.id).await),
        MISSING
    );
    assert_eq!(catalog.role(here, engineers.id).await.unwrap(), None);
    assert!(
        catalog
            .member(here, stand.ann.uuid)
            .await
            .unwrap()
            .is_some()
    );
    role(&stand, "Engineers").await;
}

async fn administrators_change_roles_and_members_do_not(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let (catalog, here) = (&stand.catalog, stand.organization);
    let engineers = role(&stand, "Engineers").await;
    let held = give(&stand, &engineers, &stand.ann).await.unwrap();
    let held = held.record.id;
    let administrator = member(&stand, "administrator", Level::Administrator).await;
    let bob = member(&stand, "bob", Level::Member).await;
    let stranger = stand.user("stranger").await;
    let forbidden = ("permission_denied", None);
    for by in [&bob, &stranger] {
        let (id, uuid, by) = (engineers.id, by.uuid, actor(by));
        let made = catalog.create_role(&by, here, NewRole::named("Mine")).await;
        assert_eq!(blame(made), forbidden);
        let renamed = catalog.update_role(&by, here, id, rename("Mine")).await;
        assert_eq!(blame(renamed), forbidden);
        let given = catalog.add_role_member(&by, here, id, uuid).await;
        assert_eq!(blame(given), forbidden);
        let taken = catalog.remove_role_member(&by, here, id, held).await;
        assert_eq!(blame(taken), forbidden);
        assert_eq!(blame(catalog.delete_role(&by, here, id).await), forbidden);
    }
    let by = actor(&administrator);
    let given = catalog
        .add_role_member(&by, here, engineers.id, bob.uuid)
        .await;
    given.unwrap();
    let taken = catalog
        .remove_role_member(&by, here, engineers.id, held)
        .await;
    taken.unwrap();
    catalog.delete_role(&by, here, engineers.id).await.unwrap();
}

async fn roles_are_their_organizations_only(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let (catalog, owner) = (&stand.catalog, &stand.owner);
    let made = catalog
        .create_organization(owner, "Other", Some(stand.ann.id))
        .await;
    let there = made.unwrap().id;
    let ours = role(&stand, "Engineers").await;
    let held = give(&stand, &ours, &stand.ann).await.unwrap().record.id;
    let ann = stand.ann.uuid;
    assert_eq!(catalog.role(there, ours.id).await.unwrap(), None);
    assert_eq!(
        catalog.role_member(there, ours.id, held).await.unwrap(),
        None
    );
    assert_eq!(
        catalog
            .role_members_of(there, ours.id, FIRST)
            .await
            .unwrap(),
        None
    );
    let page = catalog.roles_of(there, &RoleFilter::default(), FIRST).await;
    assert_eq!(page.unwrap().count, 0);
    let renamed = catalog
        .update_role(owner, there, ours.id, rename("Theirs"))
        .await;
    assert_eq!(blame(renamed), MISSING);
    let given = catalog.add_role_member(owner, there, ours.id, ann).await;
    assert_eq!(blame(given), MISSING);
    let taken = catalog
        .remove_role_member(owner, there, ours.id, held)
        .await;
    assert_eq!(blame(taken), MISSING);
    assert_eq!(
        blame(catalog.delete_role(owner, there, ours.id).await),
        MISSING
    );
    catalog
        .delete_organization(owner, stand.organization)
        .await
        .unwrap();
    assert_eq!(
        catalog.role(stand.organization, ours.id).await.unwrap(),
        None
    );
}

async fn parallel_gifts_of_a_role_leave_one(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let engineers = role(&stand, "Engineers").await;
    let gifts: Vec<_> = (0..10)
        .map(|_| {
            let (catalog, owner) = (stand.catalog.clone(), stand.owner.clone());
            let (here, id, uuid) = (stand.organization, engineers.id, stand.ann.uuid);
            tokio::spawn(async move { catalog.add_role_member(&owner, here, id, uuid).await })
        })
        .collect();
    let mut given = 0;
    for gift in gifts {
        match gift.await.unwrap() {
            Ok(_) => given += 1,
            refused => assert_eq!(blame(refused), INVALID),
        }
    }
    assert_eq!((given, holders(&stand, &engineers).await.len()), (1, 1));
}

async fn lists_of_roles_and_of_their_members_take_three_statements(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let here = stand.organization;
    let first = role(&stand, "Engineers").await;
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
    let (catalog, sent) = stand.catalog.counted();
    let page = |offset| PageRequest { limit: 500, offset };
    let (all, mut seen) = (RoleFilter::default(), Vec::new());
    for offset in [0, 500] {
        let part = catalog.roles_of(here, &all, page(offset)).await.unwrap();
        let statements = sent.take();
        assert!(statements.len() <= 3, "{statements:#?}");
        assert_eq!((part.count, part.rows.len()), (1000, 500));
        seen.extend(part.rows);
    }
    assert!(seen.is_sorted_by_key(|seen| (seen.role.created_at, seen.role.id)));
    assert!(
        seen.iter()
            .all(|seen| seen.created_by.as_ref() == Some(&stand.ann))
    );
    let held: usize = seen.iter().map(|seen| seen.members.len()).sum();
    assert_eq!(held, 2 * 1000, "of 1001 each");
    let part = catalog.role_members_of(here, first.id, page(1000)).await;
    let part = part.unwrap().unwrap();
    assert!(sent.take().len() <= 3);
    assert_eq!((part.count, part.rows.len()), (1001, 1));
}

async fn a_role_is_answered_with_its_first_members(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let (catalog, here) = (&stand.catalog, stand.organization);
    add_members(&database, 1_010).await;
    let mut roles = Vec::new();
    for number in 0..20 {
        let new = NewRole::named(&format!("r{number:02}"));
        let made = catalog.create_role(&stand.owner, here, new).await.unwrap();
        roles.push(made.role.id);
    }
    let uuid = random_uuid(&database);
    // Who joined the organization last got the roles first.
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
    let one = catalog.role(here, roles[7]).await.unwrap().unwrap();
    first(&one.members, 1_000);
    // However many are asked for, they have 2 000 members at most, and none is left out.
    for limit in [1, 2, 3, 20] {
        let mut read = Vec::new();
        while read.len() < roles.len() {
            let offset = read.len() as u64;
            let page = PageRequest { limit, offset };
            let page = catalog.roles_of(here, &RoleFilter::default(), page).await;
            let rows = page.unwrap().rows;
            assert!((1..=limit.min(2)).contains(&(rows.len() as u64)), "{limit}");
            for row in rows {
                first(&row.members, 1_000);
                read.push(row.role.id);
            }
        }
        assert_eq!(read, roles);
    }
    let all = catalog.role_members_of(here, roles[7], FIRST);
    assert_eq!(all.await.unwrap().unwrap().count, 1_010);
}
