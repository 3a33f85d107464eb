//! Roles: their records, and the entries about them.

mod access;
mod lists;
mod members;

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Activity, ActivityScope, Actor, ChangeError, FlagsAccess, Level, Patch, Role, User,
};
use millrace_organizations::testing::test_env::{FIRST, TestEnv, field, violation};
use millrace_organizations::{NewRole, Organizations, RoleChange, RoleFilter, RoleMember, Roles};

on_both!(
    a_role_is_made_and_read,
    names_of_roles_are_unique_in_any_case,
    changes_of_roles_are_logged_and_unchanged_values_are_not,
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
        name: Patch::Value(name.to_owned()),
        ..RoleChange::default()
    }
}

async fn a_role_is_made_and_read(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let new = NewRole {
        feature_flags_access_level: Patch::Value(FlagsAccess::View),
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
        assert_eq!(violation(made), expected, "{name}");
        let renamed = Roles::new(catalog)
            .update(owner, here, others.id, rename(name))
            .await;
        assert_eq!(violation(renamed), expected, "{name}");
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
        name: Patch::Value("Makers".to_owned()),
        feature_flags_access_level: Patch::Value(FlagsAccess::View),
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
