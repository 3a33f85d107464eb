//! Many invites: made in one request, and listed.

use millrace_catalog::testing::{TestDatabase, numbers, random_uuid};
use millrace_catalog::{PageRequest, ProjectAccess, ProjectAccessLevel};
use millrace_organizations::testing::test_env::{FIRST, TestEnv, field, violation};
use millrace_organizations::{Invites, NewInvite};

on_both!(
    bulk_invites_are_all_or_nothing_and_name_the_item_at_fault,
    a_list_of_1000_invites_takes_three_statements,
);

async fn bulk_invites_are_all_or_nothing_and_name_the_item_at_fault(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let invites = Invites::new(catalog);
    let good = |count: usize| -> Vec<NewInvite> {
        let addresses = (0..count).map(|number| format!("new{number}@example.com"));
        addresses.map(|address| NewInvite::to(&address)).collect()
    };
    let with = |new: NewInvite| {
        let mut all = good(5);
        all[4] = new;
        all
    };
    let unknown = ProjectAccess {
        id: 4711,
        level: ProjectAccessLevel::Number(1),
    };
    let table = [
        (good(21), ("max_length", None)),
        (
            with(NewInvite::to("x")),
            field("invalid_input", "4__target_email"),
        ),
        (
            with(NewInvite::to("NEW1@example.com")),
            field("duplicate", "4__target_email"),
        ),
        (
            with(NewInvite::to("ann@example.com")),
            field("invalid_input", "4__target_email"),
        ),
        (
            with(NewInvite {
                private_project_access: vec![unknown],
                ..NewInvite::to("bob@example.com")
            }),
            field("invalid_input", "4__private_project_access"),
        ),
    ];
    for (new, expected) in table {
        let refused = invites.create_all(&env.owner, here, new).await;
        assert_eq!(violation(refused), expected);
        assert_eq!(invites.list(here, FIRST).await.unwrap().count, 0);
    }
    let made = invites
        .create_all(&env.owner, here, good(20))
        .await
        .unwrap();
    assert_eq!(made.len(), 20);
    let listed = invites.list(here, FIRST).await.unwrap();
    let listed: Vec<_> = listed
        .rows
        .into_iter()
        .map(|row| row.record.target_email)
        .collect();
    let made: Vec<_> = made
        .into_iter()
        .map(|sent| sent.invite.record.target_email)
        .collect();
    assert_eq!(listed, made, "in the order of the list");
    assert!(
        invites
            .create_all(&env.owner, here, Vec::new())
            .await
            .unwrap()
            .is_empty()
    );
}

async fn a_list_of_1000_invites_takes_three_statements(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let fill = format!(
        "INSERT INTO organization_invites (id, organization_id, target_email, email_key, \
         first_name, level, private_project_access, emailing_attempt_made, token_hash, \
         expires_at, created_by_id, created_at, updated_at) {} SELECT {}, organizations.id, \
         'a' || i, 'a' || i, '', 1, '[]', false, 'hash' || i, i, users.id, i, i \
         FROM n, organizations, users",
        numbers(1000),
        random_uuid(&database)
    );
    database.execute(&fill).await.unwrap();
    let (catalog, sent) = env.catalog.counted();
    let page = PageRequest {
        limit: 1000,
        offset: 0,
    };
    let listed = Invites::new(&catalog)
        .list(env.organization, page)
        .await
        .unwrap();
    let statements = sent.take();
    assert!(statements.len() <= 3, "{statements:#?}");
    assert_eq!((listed.count, listed.rows.len()), (1000, 1000));
    assert!(
        listed
            .rows
            .iter()
            .all(|row| row.created_by.as_ref() == Some(&env.ann))
    );
    assert!(listed.rows.is_sorted_by_key(|row| row.record.created_at));
}
