//! Deletion of revoked keys, and of users who have nothing any more, after a time.

use crate::contention::holding;
use crate::test_env::{DAY_MICROS, FIRST, START, TestEnv};
use millrace_catalog::testing::{TestDatabase, numbers, random_uuid};
use millrace_catalog::{NewInvite, UtcTime};
use millrace_rows::Micros;
use std::time::Duration;

on_both!(
    revoked_keys_are_deleted_after_their_time_in_pieces,
    users_who_have_nothing_are_deleted_after_their_time,
    keys_of_a_deleted_user_go_before_in_pieces,
);

/// Time for which keys and users are kept.
const KEPT: Duration = Duration::from_secs(90 * 86_400);
/// Rows that one transaction deletes at most.
const ROWS_MAX: u64 = 2_000;

fn set_day(env: &TestEnv, day: i64) {
    env.clock.set(Micros(START.0 + day * DAY_MICROS));
}

/// Prunes until nothing is left to do; returns the rows of each piece.
async fn prune(env: &TestEnv) -> Vec<u64> {
    let mut pieces = Vec::new();
    loop {
        match env.catalog.prune_people(KEPT).await.unwrap() {
            0 => return pieces,
            rows => pieces.push(rows),
        }
    }
}

/// Names of all users.
async fn users(env: &TestEnv) -> Vec<String> {
    let users = env.catalog.list_users().await.unwrap();
    users.into_iter().map(|user| user.first_name).collect()
}

async fn key_rows(database: &TestDatabase) -> u64 {
    let count = "SELECT CAST(COUNT(*) AS TEXT) FROM personal_api_keys";
    database.first_column(count).await.unwrap()[0]
        .parse()
        .unwrap()
}

/// Writes many keys of a user that have ended; `column` is the time of their end.
async fn add_ended_keys(database: &TestDatabase, user_id: i64, rows: u32, column: &str) {
    let insert = format!(
        "INSERT INTO personal_api_keys (id, user_id, label, key_hash, mask_value, scopes, \
         created_at, {column}) {} SELECT {}, {user_id}, 'Ended', 'h' || i, 'phx_...', '[]', 1, {} \
         FROM n",
        numbers(rows),
        random_uuid(database),
        START.0,
    );
    database.execute(&insert).await.unwrap();
}

async fn revoked_keys_are_deleted_after_their_time_in_pieces(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    let other = env.caller(&env.ann).await;
    let brief = env.caller_with(&env.ann, |key| {
        key.expires_at = Some(UtcTime(START.0 + DAY_MICROS));
    });
    brief.await;
    add_ended_keys(&database, env.ann.id, 4_500, "revoked_at").await;
    set_day(&env, 1);
    let revoked = env.catalog.delete_own_key(&ann, other.key_id);
    revoked.await.unwrap();
    set_day(&env, 90);
    assert_eq!(prune(&env).await, [0; 0]);
    assert_eq!(key_rows(&database).await, 4_503);
    set_day(&env, 91);
    let pieces = prune(&env).await;
    assert!(pieces.iter().all(|rows| *rows <= ROWS_MAX), "{pieces:?}");
    assert_eq!(pieces.iter().sum::<u64>(), 4_500);
    // That of the first day is kept for another moment; those in force and the expired one stay.
    assert_eq!(key_rows(&database).await, 3);
    set_day(&env, 92);
    assert_eq!(prune(&env).await, [1]);
    assert_eq!(key_rows(&database).await, 2);
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
    let invited = env
        .catalog
        .create_invite(&env.owner, env.organization, invite);
    invited.await.unwrap();
    let back = env.user("back").await;
    let everybody = ["ann", "idle", "keyed", "ended", "invited", "back"];
    for day in [0, 2] {
        set_day(&env, day);
        prune(&env).await;
        assert_eq!(users(&env).await, everybody, "day {day}");
    }
    // Who has something for a while begins anew.
    set_day(&env, 10);
    let key = env.caller(&back).await;
    prune(&env).await;
    set_day(&env, 80);
    env.catalog.delete_own_key(&key, key.key_id).await.unwrap();
    prune(&env).await;
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
        prune(&env).await;
        assert_eq!(users(&env).await, expected, "day {day}");
    }
}

async fn keys_of_a_deleted_user_go_before_in_pieces(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let idle = env.user("idle").await;
    add_ended_keys(&database, idle.id, 4_500, "expires_at").await;
    assert_eq!(prune(&env).await, [1], "is noted");
    set_day(&env, 91);
    assert_eq!(prune(&env).await, [ROWS_MAX, ROWS_MAX, 500, 1]);
    assert_eq!(users(&env).await, ["ann"]);
    assert_eq!(key_rows(&database).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_joins_meanwhile_is_not_deleted() {
    let database = TestDatabase::postgres().await;
    let env = TestEnv::new(&database).await;
    let idle = env.user("idle").await;
    prune(&env).await;
    set_day(&env, 91);
    let join = format!(
        "INSERT INTO organization_memberships (id, organization_id, user_id, level, joined_at, \
         updated_at) SELECT gen_random_uuid(), id, {}, 1, 1, 1 FROM organizations",
        idle.id
    );
    let joining = holding(&database, &join).await;
    assert_eq!(prune(&env).await, [0; 0]);
    joining.commit().await.unwrap();
    assert_eq!(prune(&env).await, [1], "is forgotten again");
    let members = env.catalog.members_of(env.organization, None, FIRST);
    assert_eq!(members.await.unwrap().rows.len(), 2);
}
