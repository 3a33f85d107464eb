//! Signing in by links, and the sessions that follow.

use millrace_catalog::limits::{SESSIONS_PER_USER_MAX, SIGN_IN_LINKS_PER_USER_MAX};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Activity, ActivityScope, Actor, Cleanup, Level, Scopes, SignInMethod, User,
};
use millrace_organizations::testing::test_env::{DAY_MICROS, FIRST, START, TestEnv, violation};
use millrace_organizations::{
    Caller, Credential, Invites, Members, NewInvite, NewOwnKey, OpenedSession, PersonalKeys,
    Sessions,
};
use millrace_rows::Micros;

on_both!(
    a_link_signs_in_once_within_fifteen_minutes,
    two_uses_of_a_link_at_once_open_one_session,
    a_link_by_mail_is_for_accounts_and_proves_the_address,
    an_invite_may_end_in_a_session,
    a_session_ends_without_use_and_by_its_age,
    removal_and_deactivation_end_sessions_and_links,
    a_user_has_a_few_links_and_sessions,
    sessions_are_listed_and_ended_by_sessions_and_full_keys,
    an_ended_session_creates_no_key,
    tokens_are_not_stored,
    ended_sessions_and_links_are_deleted,
);

const MINUTE_MICROS: i64 = 60_000_000;
const HOUR_MICROS: i64 = 60 * MINUTE_MICROS;

/// Sets the clock to a time after the start.
fn set(env: &TestEnv, micros: i64) {
    env.clock.set(Micros(START.0 + micros));
}

/// Creates a link for a user; returns its token.
async fn link(env: &TestEnv, user: &User) -> String {
    let link = Sessions::new(&env.catalog).create_link(&Actor::system(), &user.email);
    link.await.unwrap().token.expose().to_owned()
}

/// Opens a session of a user.
async fn sign_in(env: &TestEnv, user: &User) -> OpenedSession {
    let token = link(env, user).await;
    let opened = Sessions::new(&env.catalog).sign_in(&token, "Firefox").await;
    opened.unwrap()
}

async fn caller(env: &TestEnv, session: &OpenedSession) -> Option<Caller> {
    let token = session.token.expose();
    let found = Sessions::new(&env.catalog).authenticate(token).await;
    found.unwrap()
}

/// Adds a member to the organization.
async fn member(env: &TestEnv, name: &str) -> User {
    let user = env.user(name).await;
    let added = env
        .catalog
        .add_member(env.organization, user.id, Level::Member);
    added.await.unwrap();
    user
}

async fn a_link_signs_in_once_within_fifteen_minutes(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let sessions = Sessions::new(&env.catalog);
    let (token, late) = (link(&env, &env.ann).await, link(&env, &env.ann).await);
    set(&env, 15 * MINUTE_MICROS - 1);
    let opened = sessions.sign_in(&token, "Fire\u{7}fox").await.unwrap();
    assert_eq!(opened.user.id, env.ann.id);
    assert_eq!(opened.record.user_agent, "Firefox");
    assert_eq!(opened.record.method, SignInMethod::Link);
    let found = caller(&env, &opened).await.unwrap();
    assert_eq!(found.user.id, env.ann.id);
    assert_eq!(found.credential, Credential::Session(opened.record.id));
    assert_eq!(found.scopes, Scopes::all());
    assert_eq!(opened.user.is_email_verified, None, "nothing was mailed");
    set(&env, 15 * MINUTE_MICROS);
    let unknown = "A".repeat(43);
    let other = opened.token.expose();
    for wrong in [token.as_str(), &late, &unknown, other, ""] {
        let refused = sessions.sign_in(wrong, "Firefox").await;
        assert_eq!(violation(refused), ("not_found", None), "{wrong}");
    }
    let entries = env.entries(ActivityScope::Session).await;
    let told = entries.iter().map(|it| (it.activity, it.user_id));
    let expected = [
        (Activity::Created, Some(env.ann.id)),
        (Activity::Created, None),
        (Activity::Created, None),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    let nobody = sessions.create_link(&Actor::system(), "nobody@example.com");
    assert_eq!(violation(nobody.await), ("not_found", None));
}

async fn two_uses_of_a_link_at_once_open_one_session(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let token = link(&env, &env.ann).await;
    let sessions = Sessions::new(&env.catalog);
    let (one, other) = tokio::join!(
        sessions.sign_in(&token, "Firefox"),
        sessions.sign_in(&token, "Chrome")
    );
    let (opened, refused) = if one.is_ok() {
        (one, other)
    } else {
        (other, one)
    };
    opened.unwrap();
    assert_eq!(violation(refused), ("not_found", None));
}

async fn a_link_by_mail_is_for_accounts_and_proves_the_address(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let sessions = Sessions::new(&env.catalog);
    env.user("blocked").await;
    env.user("bärbel").await;
    let block = "UPDATE users SET is_active = false WHERE first_name = 'blocked'";
    database.execute(block).await.unwrap();
    for email in [
        "nobody@example.com",
        "blocked@example.com",
        "bärbel@example.com",
        "no address",
    ] {
        let made = sessions.create_link_to_mail(email).await.unwrap();
        assert!(made.is_none(), "{email}");
    }
    let made = sessions.create_link_to_mail("ANN@Example.com").await;
    let made = made.unwrap().unwrap();
    assert_eq!(made.user.email, env.ann.email, "whatever was asked for");
    assert!(env.entries(ActivityScope::Session).await.is_empty());
    let opened = sessions.sign_in(made.token.expose(), "").await.unwrap();
    assert_eq!(opened.record.method, SignInMethod::Mail);
    assert_eq!(opened.user.is_email_verified, Some(true));
    assert_eq!(env.entries(ActivityScope::Session).await.len(), 1);
}

async fn an_invite_may_end_in_a_session(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let invites = Invites::new(&env.catalog);
    let new = NewInvite::to("bob@example.com");
    let sent = invites.create(&env.owner, env.organization, new).await;
    let token = sent.unwrap().token;
    let joined = invites.accept_in_browser(token.expose(), "Bob", "", "Firefox");
    let joined = joined.await.unwrap();
    assert!(joined.key.is_none());
    let session = joined.session.unwrap();
    assert_eq!(session.record.method, SignInMethod::Invite);
    let found = caller(&env, &session).await.unwrap();
    assert_eq!(found.user.email, "bob@example.com");
    let keys = PersonalKeys::new(&env.catalog)
        .list_own(&found, FIRST)
        .await;
    assert_eq!(keys.unwrap().count, 0);
}

async fn a_session_ends_without_use_and_by_its_age(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let idle = sign_in(&env, &env.ann).await;
    set(&env, 11 * HOUR_MICROS);
    assert!(caller(&env, &idle).await.is_some());
    set(&env, 23 * HOUR_MICROS - 1);
    assert!(caller(&env, &idle).await.is_some());
    set(&env, 35 * HOUR_MICROS - 1);
    assert!(caller(&env, &idle).await.is_none(), "12 hours without use");
    let begun = 2 * DAY_MICROS;
    set(&env, begun);
    let used = sign_in(&env, &env.ann).await;
    for hours in (0..720).step_by(11) {
        set(&env, begun + hours * HOUR_MICROS);
        assert!(caller(&env, &used).await.is_some(), "{hours}");
    }
    set(&env, begun + 30 * DAY_MICROS - 1);
    assert!(caller(&env, &used).await.is_some());
    set(&env, begun + 30 * DAY_MICROS);
    assert!(caller(&env, &used).await.is_none(), "30 days");
}

async fn removal_and_deactivation_end_sessions_and_links(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let sessions = Sessions::new(&env.catalog);
    let (bob, mia) = (member(&env, "bob").await, member(&env, "mia").await);
    let [of_ann, of_bob, of_mia] = [
        sign_in(&env, &env.ann).await,
        sign_in(&env, &bob).await,
        sign_in(&env, &mia).await,
    ];
    let token = link(&env, &bob).await;
    let removed = Members::new(&env.catalog).remove(&env.owner, env.organization, bob.uuid);
    removed.await.unwrap();
    assert!(caller(&env, &of_bob).await.is_none());
    let refused = sessions.sign_in(&token, "Firefox").await;
    assert_eq!(violation(refused), ("not_found", None));
    let token = link(&env, &mia).await;
    let block = "UPDATE users SET is_active = false WHERE first_name = 'mia'";
    database.execute(block).await.unwrap();
    assert!(caller(&env, &of_mia).await.is_none());
    let refused = sessions.sign_in(&token, "Firefox").await;
    assert_eq!(violation(refused), ("not_found", None));
    let refused = sessions.create_link(&env.owner, &mia.email).await;
    assert_eq!(violation(refused), ("permission_denied", None));
    assert!(caller(&env, &of_ann).await.is_some(), "others stay");
}

async fn a_user_has_a_few_links_and_sessions(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let bob = member(&env, "bob").await;
    let other = sign_in(&env, &bob).await;
    let mut tokens = Vec::new();
    for _ in 0..=SIGN_IN_LINKS_PER_USER_MAX {
        tokens.push(link(&env, &env.ann).await);
    }
    let sessions = Sessions::new(&env.catalog);
    let refused = sessions.sign_in(&tokens.remove(0), "Firefox").await;
    assert_eq!(violation(refused), ("not_found", None), "the oldest");
    for token in tokens {
        sessions.sign_in(&token, "Firefox").await.unwrap();
    }
    let mut opened = Vec::new();
    for minute in 0..=SESSIONS_PER_USER_MAX {
        set(&env, i64::try_from(minute + 1).unwrap() * MINUTE_MICROS);
        opened.push(sign_in(&env, &env.ann).await);
    }
    assert!(caller(&env, &opened.remove(0)).await.is_none());
    for session in &opened {
        assert!(caller(&env, session).await.is_some());
    }
    assert!(caller(&env, &other).await.is_some(), "of another user");
}

async fn sessions_are_listed_and_ended_by_sessions_and_full_keys(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let sessions = Sessions::new(&env.catalog);
    let bob = member(&env, "bob").await;
    let (first, second) = (sign_in(&env, &env.ann).await, sign_in(&env, &env.ann).await);
    let of_bob = sign_in(&env, &bob).await;
    let by_session = caller(&env, &first).await.unwrap();
    let full = env.caller(&env.ann).await;
    let narrow = env
        .caller_with(&env.ann, |key| {
            key.scopes = Scopes::parse(["organization:write"]).unwrap();
        })
        .await;
    let scoped = env
        .caller_with(&env.ann, |key| {
            key.scoped_organizations = Some(vec![env.organization]);
        })
        .await;
    for caller in [&by_session, &full] {
        let listed = sessions.list_own(caller, FIRST).await.unwrap();
        let ids: Vec<_> = listed.rows.iter().map(|row| row.id).collect();
        assert_eq!(ids, [first.record.id, second.record.id]);
        let foreign = of_bob.record.id;
        assert!(sessions.get_own(caller, foreign).await.unwrap().is_none());
        let refused = sessions.end_own(caller, foreign).await;
        assert_eq!(violation(refused), ("not_found", None));
    }
    for caller in [&narrow, &scoped] {
        let denied = ("permission_denied", None);
        let listed = sessions.list_own(caller, FIRST).await;
        assert_eq!(violation(listed), denied);
        let ended = sessions.end_own(caller, first.record.id).await;
        assert_eq!(violation(ended), denied);
    }
    sessions.end_own(&full, second.record.id).await.unwrap();
    assert!(caller(&env, &second).await.is_none());
    sessions
        .end_own(&by_session, first.record.id)
        .await
        .unwrap();
    assert!(caller(&env, &first).await.is_none());
    let newest = &env.entries(ActivityScope::Session).await[0];
    assert_eq!(newest.activity, Activity::Deleted);
    assert_eq!((newest.user_id, newest.key_id), (Some(env.ann.id), None));
    assert!(caller(&env, &of_bob).await.is_some());
}

async fn an_ended_session_creates_no_key(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let session = sign_in(&env, &env.ann).await;
    let by_session = caller(&env, &session).await.unwrap();
    let new = || NewOwnKey {
        label: "Key".to_owned(),
        scopes: vec!["*".to_owned()],
        expires_at: None,
        scoped_organizations: None,
    };
    let keys = PersonalKeys::new(&env.catalog);
    let made = keys.create_own(&by_session, new()).await.unwrap();
    assert_eq!(made.record.user_id, env.ann.id);
    let sessions = Sessions::new(&env.catalog);
    let ended = sessions.end_own(&by_session, session.record.id);
    ended.await.unwrap();
    let refused = keys.create_own(&by_session, new()).await;
    assert_eq!(violation(refused), ("permission_denied", None));
}

async fn tokens_are_not_stored(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let session = sign_in(&env, &env.ann).await;
    let token = link(&env, &env.ann).await;
    let contents = database.contents().await.unwrap().join("\n");
    for secret in [session.token.expose(), &token] {
        assert!(!contents.contains(secret));
    }
    assert!(!format!("{session:?}").contains(session.token.expose()));
}

async fn ended_sessions_and_links_are_deleted(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    sign_in(&env, &env.ann).await;
    link(&env, &env.ann).await;
    set(&env, 10 * HOUR_MICROS);
    let kept = sign_in(&env, &env.ann).await;
    let cleanup = Cleanup::new(&env.catalog);
    assert_eq!(cleanup.prune_sessions().await.unwrap(), 1, "the link");
    set(&env, 12 * HOUR_MICROS);
    assert_eq!(cleanup.prune_sessions().await.unwrap(), 1, "the session");
    assert_eq!(cleanup.prune_sessions().await.unwrap(), 0);
    assert!(caller(&env, &kept).await.is_some());
}
