//! Deletion of users who have had no organization, no invite and no key for a time.

use crate::ended_keys::{KEPT, set_day};
use millrace_catalog::testing::{DatabaseKind, TestDatabase, holding, numbers, random_uuid};
use millrace_catalog::{Actor, Cleanup, UtcTime};
use millrace_organizations::testing::test_env::{DAY_MICROS, FIRST, START, TestEnv};
use millrace_organizations::{Invites, Members, NewInvite, Organizations, PersonalKeys, Users};

on_both!(
    users_who_have_nothing_are_deleted_after_their_time,
    a_user_whose_key_ended_between_two_passes_stays,
    a_user_who_had_an_organization_between_two_passes_stays,
    a_key_and_a_membership_end_the_time_at_once,
    an_inactive_user_stays,
    many_users_are_noted_and_deleted_in_pieces,
);

/// Notes unused users, and prunes ended keys and unused users until nothing is left to do. Returns
/// the users of each piece.
async fn pass(env: &TestEnv) -> Vec<u64> {
    let (catalog, mut after, mut pieces) = (&env.catalog, 0, Vec::new());
    while let Some(last) = Cleanup::new(catalog)
        .note_unused_users(after)
        .await
        .unwrap()
    {
        after = last;
    }
    while Cleanup::new(catalog).prune_keys(KEPT).await.unwrap() > 0 {}
    loop {
        match Cleanup::new(catalog).prune_users(KEPT).await.unwrap() {
            0 => return pieces,
            users => pieces.push(users),
        }
    }
}

/// Names of all users.
async fn users(env: &TestEnv) -> Vec<String> {
    let users = Users::new(&env.catalog).list().await.unwrap();
    users.into_iter().map(|user| user.first_name).collect()
}

async fn users_who_have_nothing_are_deleted_after_their_time(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    env.user("idle").await;
    let keyed = env.user("keyed").await;
    env.caller(&keyed).await;
    // A key that expires counts until then.
    let ended = env.user("ended").await;
    let brief = env.caller_with(&ended, |key| {
        key.expires_at = Some(UtcTime(START.0 + DAY_MICROS));
    });
    brief.await;
    env.user("invited").await;
    let invite = NewInvite::to("invited@example.com");
    let invited = Invites::new(&env.catalog).create(&env.owner, env.organization, invite);
    invited.await.unwrap();
    let back = env.user("back").await;
    let everybody = ["ann", "idle", "keyed", "ended", "invited", "back"];
    for day in [0, 2] {
        set_day(&env, day);
        pass(&env).await;
        assert_eq!(users(&env).await, everybody, "day {day}");
    }
    // Who has something for a while begins anew.
    set_day(&env, 10);
    let key = env.caller(&back).await;
    pass(&env).await;
    set_day(&env, 80);
    PersonalKeys::new(&env.catalog)
        .delete_own(&key, key.credential.id())
        .await
        .unwrap();
    pass(&env).await;
    let table: [(i64, &[&str]); 7] = [
        (90, &everybody),
        (91, &["ann", "keyed", "ended", "invited", "back"]),
        (92, &["ann", "keyed", "ended", "invited", "back"]),
        (93, &["ann", "keyed", "invited", "back"]),
        (170, &["ann", "keyed", "invited", "back"]),
        (171, &["ann", "keyed", "invited"]),
        (1_000, &["ann", "keyed", "invited"]),
    ];
    for (day, expected) in table {
        set_day(&env, day);
        pass(&env).await;
        assert_eq!(users(&env).await, expected, "day {day}");
    }
}

async fn a_user_whose_key_ended_between_two_passes_stays(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let brief = env.user("brief").await;
    pass(&env).await;
    set_day(&env, 95);
    let key = env.caller(&brief).await;
    PersonalKeys::new(&env.catalog)
        .delete_own(&key, key.credential.id())
        .await
        .unwrap();
    for (day, expected) in [(95, vec![]), (185, vec![]), (186, vec![1])] {
        set_day(&env, day);
        assert_eq!(pass(&env).await, expected, "day {day}");
    }
    assert_eq!(users(&env).await, ["ann"]);
}

async fn a_user_who_had_an_organization_between_two_passes_stays(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let brief = env.user("brief").await;
    pass(&env).await;
    set_day(&env, 89);
    let (catalog, system) = (&env.catalog, Actor::system());
    let made = Organizations::new(catalog).create(&system, "Brief", Some(brief.id));
    let made = made.await.unwrap().id;
    Organizations::new(catalog)
        .delete(&system, made)
        .await
        .unwrap();
    for (day, expected) in [(91, vec![]), (181, vec![]), (182, vec![1])] {
        set_day(&env, day);
        assert_eq!(pass(&env).await, expected, "day {day}");
    }
    assert_eq!(users(&env).await, ["ann"]);
}

async fn a_key_and_a_membership_end_the_time_at_once(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, bob) = (&env.catalog, env.user("bob").await);
    let caller = env.caller(&bob).await;
    let note = format!(
        "INSERT INTO unused_users (user_id, since) VALUES ({}, 1)",
        bob.id
    );
    for way in ["key", "organization", "invite"] {
        database.execute(&note).await.unwrap();
        match way {
            "key" => drop(env.caller(&bob).await),
            "organization" => {
                let made = Organizations::new(catalog).create(&env.owner, "Bob's", Some(bob.id));
                made.await.unwrap();
            }
            _ => {
                let invite = NewInvite::to("bob@example.com");
                let sent = Invites::new(catalog).create(&env.owner, env.organization, invite);
                let sent = sent.await.unwrap();
                let joined = Invites::new(catalog).accept_as(sent.token.expose(), &caller);
                joined.await.unwrap();
            }
        }
        let noted = "SELECT CAST(COUNT(*) AS TEXT) FROM unused_users";
        let noted = database.first_column(noted).await.unwrap();
        assert_eq!(noted, ["0"], "{way}");
    }
}

async fn an_inactive_user_stays(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    env.user("blocked").await;
    let block = "UPDATE users SET is_active = false WHERE first_name = 'blocked'";
    for day in [0, 1_000] {
        set_day(&env, day);
        pass(&env).await;
        database.execute(block).await.unwrap();
    }
    assert_eq!(users(&env).await, ["ann", "blocked"]);
}

async fn many_users_are_noted_and_deleted_in_pieces(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let insert = format!(
        "INSERT INTO users (uuid, distinct_id, email, first_name, last_name, is_active, \
         created_at, updated_at) {} SELECT {}, 'x', 'x' || i || '@example.com', '', '', true, \
         i, i FROM n",
        numbers(4_300),
        random_uuid(&database),
    );
    database.execute(&insert).await.unwrap();
    let (mut after, mut pieces) = (0, 0);
    while let Some(last) = Cleanup::new(&env.catalog)
        .note_unused_users(after)
        .await
        .unwrap()
    {
        (after, pieces) = (last, pieces + 1);
    }
    assert_eq!(pieces, 3, "of 2 000 users each, and the rest");
    let noted = "SELECT CAST(COUNT(*) AS TEXT) FROM unused_users";
    assert_eq!(database.first_column(noted).await.unwrap(), ["4300"]);
    set_day(&env, 91);
    let pieces = pass(&env).await;
    let mut expected = vec![250_u64; 17];
    expected.push(50);
    assert_eq!(pieces, expected);
    assert_eq!(users(&env).await, ["ann"]);
    assert_eq!(database.first_column(noted).await.unwrap(), ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_joins_meanwhile_is_not_deleted() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let env = TestEnv::new(&database).await;
    let idle = env.user("idle").await;
    pass(&env).await;
    set_day(&env, 91);
    let join = format!(
        "INSERT INTO organization_memberships (id, organization_id, user_id, level, joined_at, \
         updated_at) SELECT gen_random_uuid(), id, {}, 1, 1, 1 FROM organizations",
        idle.id
    );
    let joining = holding(&database, &join).await;
    assert_eq!(pass(&env).await, [0; 0]);
    joining.commit().await.unwrap();
    assert_eq!(pass(&env).await, [0; 0]);
    let members = Members::new(&env.catalog).list(env.organization, None, FIRST);
    assert_eq!(members.await.unwrap().rows.len(), 2);
}
