//! Invites: their records, expiry and links.

mod bulk;
mod levels;

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Activity, ActivityScope, Actor, Level};
use millrace_organizations::testing::test_env::{
    DAY_MICROS, FIRST, START, TestEnv, actor, field, violation,
};
use millrace_organizations::{Invites, NewInvite, Organizations, SentInvite};
use uuid::Uuid;

on_both!(
    an_invite_is_stored_without_its_token,
    malformed_invites_are_refused,
    an_older_invite_of_the_address_is_replaced,
    invites_expire_after_three_days_and_stay_listed,
    a_new_link_invalidates_the_old_one,
    any_member_deletes_an_invite_and_its_link_stops_working,
);

async fn invite(env: &TestEnv, by: &Actor, new: NewInvite) -> SentInvite {
    let made = Invites::new(&env.catalog)
        .create(by, env.organization, new)
        .await;
    made.unwrap()
}

async fn is_open(env: &TestEnv, sent: &SentInvite) -> bool {
    let open = Invites::new(&env.catalog).open(sent.token.expose()).await;
    open.unwrap().is_some()
}

async fn an_invite_is_stored_without_its_token(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let new = NewInvite {
        first_name: " Bob ".to_owned(),
        level: Level::Administrator,
        message: Some("Welcome".to_owned()),
        emailing_attempt_made: true,
        ..NewInvite::to(" Bob.Smith@Example.COM ")
    };
    let sent = invite(&env, &env.owner, new).await;
    let kept = &sent.invite.record;
    assert_eq!(kept.target_email, "Bob.Smith@example.com");
    assert_eq!(kept.email_key, "bob.smith@example.com");
    assert_eq!(
        (&*kept.first_name, kept.level),
        ("Bob", Level::Administrator)
    );
    assert_eq!(kept.message.as_deref(), Some("Welcome"));
    assert!(kept.emailing_attempt_made);
    assert_eq!(kept.expires_at.0, START.0 + 3 * DAY_MICROS);
    assert_eq!(sent.invite.created_by.as_ref(), Some(&env.ann));
    assert_eq!(sent.organization.name, "Acme");
    assert_ne!(kept.token_hash, sent.token.expose());
    let entry = env.newest_entry().await;
    assert_eq!(
        (entry.scope, entry.activity),
        (ActivityScope::Invite, Activity::Created)
    );
    assert_eq!(entry.item_id, kept.id.to_string());
    let text = serde_json::to_string(&entry.detail).unwrap();
    assert!(
        !text.contains(sent.token.expose()) && !text.contains(&kept.token_hash),
        "{text}"
    );
    let listed = Invites::new(&env.catalog)
        .list(env.organization, FIRST)
        .await
        .unwrap();
    assert_eq!((listed.count, &listed.rows[0]), (1, &sent.invite));
    let open = Invites::new(&env.catalog)
        .open(sent.token.expose())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((&open.record, &*open.organization_name), (kept, "Acme"));
    for wrong in ["", "x", &kept.id.to_string(), &kept.token_hash] {
        assert!(
            Invites::new(&env.catalog)
                .open(wrong)
                .await
                .unwrap()
                .is_none(),
            "{wrong}"
        );
    }
}

async fn malformed_invites_are_refused(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let invalid = |name| field("invalid_input", name);
    let table = [
        (NewInvite::to(""), field("blank", "target_email")),
        (NewInvite::to("bob"), invalid("target_email")),
        (NewInvite::to("a@b\r\nBcc: c@d"), invalid("target_email")),
        (
            NewInvite::to("Bob <bob@example.com>"),
            invalid("target_email"),
        ),
        (NewInvite::to("a@b,c@d"), invalid("target_email")),
        (NewInvite::to("Ann@EXAMPLE.com"), ("invalid_input", None)),
        (
            NewInvite {
                first_name: "x".repeat(31),
                ..NewInvite::to("bob@example.com")
            },
            field("max_length", "first_name"),
        ),
        (
            NewInvite {
                message: Some("x".repeat(2001)),
                ..NewInvite::to("bob@example.com")
            },
            field("max_length", "message"),
        ),
    ];
    for (new, expected) in table {
        let refused = Invites::new(&env.catalog)
            .create(&env.owner, env.organization, new)
            .await;
        assert_eq!(violation(refused), expected);
    }
    let listed = Invites::new(&env.catalog)
        .list(env.organization, FIRST)
        .await
        .unwrap();
    assert_eq!(listed.count, 0);
}

async fn an_older_invite_of_the_address_is_replaced(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let older = invite(&env, &env.owner, NewInvite::to("bob@example.com")).await;
    let newer = invite(&env, &env.owner, NewInvite::to("BOB@example.com")).await;
    assert_ne!(newer.invite.record.id, older.invite.record.id);
    assert!(!is_open(&env, &older).await);
    assert!(is_open(&env, &newer).await);
    let listed = Invites::new(&env.catalog)
        .list(env.organization, FIRST)
        .await
        .unwrap();
    assert_eq!(listed.count, 1);
}

async fn invites_expire_after_three_days_and_stay_listed(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let sent = invite(&env, &env.owner, NewInvite::to("bob@example.com")).await;
    for (after, expired) in [
        (0, false),
        (3 * DAY_MICROS - 1, false),
        (3 * DAY_MICROS, true),
    ] {
        env.clock.set(START.plus_micros(after));
        let listed = Invites::new(&env.catalog)
            .list(env.organization, FIRST)
            .await
            .unwrap();
        assert_eq!(listed.rows[0].is_expired, expired, "after {after}");
        let open = Invites::new(&env.catalog)
            .open(sent.token.expose())
            .await
            .unwrap();
        assert_eq!(open.unwrap().is_expired, expired, "after {after}");
    }
}

async fn a_new_link_invalidates_the_old_one(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let old = invite(&env, &env.owner, NewInvite::to("bob@example.com")).await;
    env.clock.set(START.plus_micros(4 * DAY_MICROS));
    let id = old.invite.record.id;
    let new = Invites::new(&env.catalog)
        .resend(&env.owner, env.organization, id, true)
        .await;
    let new = new.unwrap();
    assert!(!is_open(&env, &old).await);
    assert!(is_open(&env, &new).await);
    assert_eq!(new.invite.record.id, id);
    assert!(!new.invite.is_expired);
    assert!(new.invite.record.emailing_attempt_made);
    assert_eq!(new.invite.record.expires_at.0, START.0 + 7 * DAY_MICROS);
    assert_eq!(new.invite.record.created_at, old.invite.record.created_at);
    let unknown = Uuid::now_v7();
    let refused = Invites::new(&env.catalog).resend(&env.owner, env.organization, unknown, true);
    assert_eq!(violation(refused.await).0, "not_found");
}

async fn any_member_deletes_an_invite_and_its_link_stops_working(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let bob = env.user("bob").await;
    let owner = Some(bob.id);
    let theirs = Organizations::new(catalog)
        .create(&actor(&bob), "Bob's", owner)
        .await
        .unwrap()
        .id;
    let sent = invite(&env, &env.owner, NewInvite::to("new@example.com")).await;
    let id = sent.invite.record.id;
    let refused = Invites::new(catalog).delete(&actor(&bob), theirs, id).await;
    assert_eq!(violation(refused).0, "not_found");
    let refused = Invites::new(catalog).delete(&actor(&bob), here, id).await;
    assert_eq!(violation(refused).0, "permission_denied");
    catalog
        .add_member(here, bob.id, Level::Member)
        .await
        .unwrap();
    Invites::new(catalog)
        .delete(&actor(&bob), here, id)
        .await
        .unwrap();
    assert!(!is_open(&env, &sent).await);
    let entry = env.newest_entry().await;
    assert_eq!(
        (entry.scope, entry.activity),
        (ActivityScope::Invite, Activity::Deleted)
    );
    let again = Invites::new(catalog).delete(&actor(&bob), here, id).await;
    assert_eq!(violation(again).0, "not_found");
}
