//! Accepting invites.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::testing::lists::add_members;
use millrace_catalog::{Activity, ActivityScope, Level};
use millrace_organizations::testing::test_env::{
    DAY_MICROS, FIRST, START, TestEnv, actor, field, violation,
};
use millrace_organizations::{
    Invites, Members, NewInvite, Organizations, PersonalKeys, SentInvite, Users,
};
use std::collections::BTreeSet;

on_both!(
    a_new_account_gets_a_membership_and_a_key,
    an_existing_account_accepts_with_its_key,
    an_address_is_proved_by_what_was_mailed_to_it,
    invites_that_cannot_be_accepted_are_refused,
    an_invite_is_accepted_only_once,
    addresses_of_all_other_members_come_in_pages,
);

async fn invite(env: &TestEnv, email: &str, level: Level) -> SentInvite {
    let new = NewInvite {
        level,
        emailing_attempt_made: true,
        ..NewInvite::to(email)
    };
    let made = Invites::new(&env.catalog)
        .create(&env.owner, env.organization, new)
        .await;
    made.unwrap()
}

async fn a_new_account_gets_a_membership_and_a_key(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let sent = invite(&env, "Bob@Example.com", Level::Administrator).await;
    let token = sent.token.expose();
    let joined = Invites::new(&env.catalog)
        .accept_as_new(token, " Bob ", "Smith")
        .await
        .unwrap();
    let user = &joined.member.user;
    assert_eq!(
        (&*user.email, &*user.first_name, &*user.last_name),
        ("bob@example.com", "Bob", "Smith")
    );
    assert_eq!(user.is_email_verified, Some(true), "the link came by mail");
    assert_eq!(joined.member.membership.level, Level::Administrator);
    assert_eq!(joined.organization.id, env.organization);
    let key = joined.key.unwrap();
    let caller = PersonalKeys::new(&env.catalog)
        .authenticate(key.value.expose())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (caller.user.id, caller.scopes.as_slice()),
        (user.id, &["*".to_owned()][..])
    );
    let access = Organizations::new(&env.catalog)
        .access(&caller, env.organization)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(access.level, Some(Level::Administrator));
    let listed = Invites::new(&env.catalog)
        .list(env.organization, FIRST)
        .await
        .unwrap();
    assert_eq!(listed.count, 0);
    assert!(
        Invites::new(&env.catalog)
            .open(token)
            .await
            .unwrap()
            .is_none()
    );
    let again = Invites::new(&env.catalog)
        .accept_as_new(token, "Bob", "Smith")
        .await;
    assert_eq!(violation(again).0, "not_found");
    let entries = env.entries(ActivityScope::Membership).await;
    assert_eq!(
        (entries[0].activity, entries[0].user_id),
        (Activity::Created, Some(user.id))
    );
}

async fn an_existing_account_accepts_with_its_key(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let bob = env.user("bob").await;
    let caller = env.caller(&bob).await;
    let sent = invite(&env, "bob@example.com", Level::Member).await;
    let token = sent.token.expose();
    let refused = Invites::new(&env.catalog)
        .accept_as_new(token, "Bob", "")
        .await;
    assert_eq!(violation(refused), ("account_exists", None));
    let joined = Invites::new(&env.catalog)
        .accept_as(token, &caller)
        .await
        .unwrap();
    assert!(joined.key.is_none());
    assert_eq!(joined.member.user.is_email_verified, Some(true));
    assert_eq!(
        (joined.member.user.id, joined.member.membership.level),
        (bob.id, Level::Member)
    );
    assert!(
        Organizations::new(&env.catalog)
            .access(&caller, env.organization)
            .await
            .unwrap()
            .is_some()
    );
}

async fn an_address_is_proved_by_what_was_mailed_to_it(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    // A mail to the Kelvin sign goes to the `K` that it is composed to.
    let table = [
        ("mark", "mark@example.com", false, None),
        ("mark", "mar\u{212a}@example.com", true, Some(true)),
        ("mark", "mark@example.com", false, Some(true)),
        ("anna", "ANNA@Example.com", true, Some(true)),
        ("jos\u{e9}", "JOS\u{c9}@example.com", true, None),
        ("jos\u{e9}", "jose\u{301}@example.com", true, Some(true)),
    ];
    for (name, email, is_mailed, expected) in table {
        let address = format!("{name}@example.com");
        let user = match Users::new(&env.catalog).by_email(&address).await.unwrap() {
            Some(user) => user,
            None => env.user(name).await,
        };
        let new = NewInvite {
            emailing_attempt_made: is_mailed,
            ..NewInvite::to(email)
        };
        let made = Organizations::new(&env.catalog).create(&env.owner, "Other", Some(env.ann.id));
        let organization = made.await.unwrap().id;
        let sent = Invites::new(&env.catalog)
            .create(&env.owner, organization, new)
            .await
            .unwrap();
        let caller = env.caller(&user).await;
        let accepted = Invites::new(&env.catalog)
            .accept_as(sent.token.expose(), &caller)
            .await;
        let verified = accepted.unwrap().member.user.is_email_verified;
        assert_eq!(verified, expected, "{email}, mailed: {is_mailed}");
    }
    let new = NewInvite {
        emailing_attempt_made: true,
        ..NewInvite::to("\u{212a}ay@B\u{fc}cher.example")
    };
    let sent = Invites::new(&env.catalog)
        .create(&env.owner, env.organization, new)
        .await
        .unwrap();
    let mailed_to = &sent.invite.record.target_email;
    assert_eq!(mailed_to, "Kay@xn--bcher-kva.example");
    let joined = Invites::new(&env.catalog)
        .accept_as_new(sent.token.expose(), "", "")
        .await
        .unwrap();
    let user = joined.member.user;
    assert_eq!(
        (&*user.email, user.is_email_verified),
        ("kay@xn--bcher-kva.example", Some(true))
    );
}

async fn invites_that_cannot_be_accepted_are_refused(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let carol = env.user("carol").await;
    let carol_key = env.caller(&carol).await;
    let sent = invite(&env, "bob@example.com", Level::Member).await;
    let token = sent.token.expose();
    let refused = Invites::new(&env.catalog)
        .accept_as(token, &carol_key)
        .await;
    assert_eq!(violation(refused), ("invalid_recipient", None));
    let owner = actor(&carol);
    let elsewhere = Organizations::new(&env.catalog).create(&owner, "Carol's", Some(carol.id));
    let elsewhere = elsewhere.await.unwrap().id;
    let limited = env.caller_with(&carol, |key| {
        key.scoped_organizations = Some(vec![elsewhere]);
    });
    let refused = Invites::new(&env.catalog)
        .accept_as(token, &limited.await)
        .await;
    assert_eq!(violation(refused).0, "permission_denied");
    let long = "x".repeat(151);
    let refused = Invites::new(&env.catalog)
        .accept_as_new(token, &long, "")
        .await;
    assert_eq!(violation(refused), field("max_length", "first_name"));
    let refused = Invites::new(&env.catalog)
        .accept_as_new(token, "", &long)
        .await;
    assert_eq!(violation(refused), field("max_length", "last_name"));
    let refused = Invites::new(&env.catalog)
        .accept_as_new("nonsense", "", "")
        .await;
    assert_eq!(violation(refused).0, "not_found");
    let second = invite(&env, "carol@example.com", Level::Member).await;
    let added = env
        .catalog
        .add_member(env.organization, carol.id, Level::Member)
        .await;
    added.unwrap();
    let refused = Invites::new(&env.catalog)
        .accept_as(second.token.expose(), &carol_key)
        .await;
    assert_eq!(violation(refused), ("user_already_member", None));
    env.clock.set(START.plus_micros(3 * DAY_MICROS));
    let refused = Invites::new(&env.catalog)
        .accept_as_new(token, "", "")
        .await;
    assert_eq!(violation(refused), ("expired", None));
    assert!(
        Users::new(&env.catalog)
            .by_email("bob@example.com")
            .await
            .unwrap()
            .is_none()
    );
}

async fn an_invite_is_accepted_only_once(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let sent = invite(&env, "bob@example.com", Level::Member).await;
    let trying: Vec<_> = (0..8)
        .map(|_| {
            let (catalog, token) = (env.catalog.clone(), sent.token.clone());
            tokio::spawn(async move {
                let accepted = Invites::new(&catalog)
                    .accept_as_new(token.expose(), "Bob", "")
                    .await;
                accepted.map_err(|error| violation::<()>(Err(error)).0)
            })
        })
        .collect();
    let mut joined = 0;
    for trying in trying {
        match trying.await.unwrap() {
            Ok(_) => joined += 1,
            Err(code) => assert!(["not_found", "account_exists"].contains(&code), "{code}"),
        }
    }
    assert_eq!(joined, 1);
    let members = Members::new(&env.catalog)
        .list(env.organization, None, FIRST)
        .await;
    assert_eq!(members.unwrap().count, 2);
}

async fn addresses_of_all_other_members_come_in_pages(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    add_members(&database, 1_500).await;
    let sent = invite(&env, "bob@example.com", Level::Member).await;
    let joined = Invites::new(&env.catalog)
        .accept_as_new(sent.token.expose(), "Bob", "")
        .await;
    let bob = joined.unwrap().member.user.id;
    let (mut told, mut pages, mut after) = (BTreeSet::new(), 0, 0);
    loop {
        let page = Members::new(&env.catalog)
            .addresses_beside(env.organization, bob, after)
            .await
            .unwrap();
        let Some((last, _)) = page.last() else { break };
        after = *last;
        pages += 1;
        told.extend(page.into_iter().map(|(_, address)| address));
    }
    assert!(pages > 1, "{pages}");
    assert_eq!(told.len(), 1_501);
    assert!(told.contains("ann@example.com"));
    assert!(!told.contains("bob@example.com"));
}
