//! Lists of roles and of their members: filters, pages and statements.

use super::role;
use millrace_catalog::testing::lists::add_members;
use millrace_catalog::testing::{TestDatabase, numbers, random_uuid};
use millrace_catalog::{FlagsAccess, PageRequest, Patch};
use millrace_organizations::testing::test_env::{FIRST, TestEnv};
use millrace_organizations::{NewRole, RoleChange, RoleFilter, RoleMember, Roles};

on_both!(
    a_role_is_returned_with_its_first_members,
    roles_are_filtered_by_their_fields,
    lists_of_roles_and_of_their_members_take_three_statements,
);

async fn roles_are_filtered_by_their_fields(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let first = role(&env, "First").await;
    role(&env, "Second").await;
    let view = RoleChange {
        feature_flags_access_level: Patch::Value(FlagsAccess::View),
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
