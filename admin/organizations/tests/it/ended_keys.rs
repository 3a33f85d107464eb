//! Deletion of personal keys that ended: long ago, or before many others of their owner.

use millrace_catalog::limits::ENDED_KEYS_PER_USER_MAX;
use millrace_catalog::testing::{
    DatabaseKind, TestDatabase, holding, numbers, random_uuid, until_one_waits,
};
use millrace_catalog::{Cleanup, Patch, UtcTime};
use millrace_organizations::testing::test_env::{DAY_MICROS, FIRST, START, TestEnv};
use millrace_organizations::{Caller, OwnKeyChange, PersonalKeys};
use millrace_rows::Micros;
use std::time::Duration;

on_both!(
    ended_keys_are_deleted_after_their_time_in_pieces,
    an_expired_key_that_works_again_stays,
    a_new_key_replaces_the_first_of_a_thousand_that_ended,
    keys_are_found_by_an_index,
);

/// Time for which ended keys are kept.
pub const KEPT: Duration = Duration::from_secs(90 * 86_400);

pub fn set_day(env: &TestEnv, day: i64) {
    env.clock.set(Micros(START.0 + day * DAY_MICROS));
}

/// Prunes until nothing is left to do; returns the rows of each piece.
async fn prune(env: &TestEnv) -> Vec<u64> {
    let mut pieces = Vec::new();
    loop {
        match Cleanup::new(&env.catalog).prune_keys(KEPT).await.unwrap() {
            0 => return pieces,
            rows => pieces.push(rows),
        }
    }
}

/// Labels of the keys of a user, the one that ended first before all others.
async fn labels(database: &TestDatabase, user_id: i64) -> Vec<String> {
    let labels = format!(
        "SELECT label FROM personal_api_keys WHERE user_id = {user_id} \
         ORDER BY COALESCE(revoked_at, expires_at, {}), label",
        i64::MAX
    );
    database.first_column(&labels).await.unwrap()
}

/// Writes keys `<column> 1` and so on of a user, of which each ended a microsecond before the one
/// in front of it, and all before `until`.
async fn add_ended(database: &TestDatabase, user_id: i64, rows: u32, column: &str, until: i64) {
    let insert = format!(
        "INSERT INTO personal_api_keys (id, user_id, label, key_hash, mask_value, scopes, \
         created_at, {column}) {} SELECT {}, {user_id}, '{column} ' || i, \
         '{user_id} {column} ' || i, 'phx_...', '[\"*\"]', 1, {until} - i FROM n",
        numbers(rows),
        random_uuid(database),
    );
    database.execute(&insert).await.unwrap();
}

/// Caller with a key that expires after a day.
async fn brief(env: &TestEnv) -> Caller {
    let brief = env.caller_with(&env.ann, |key| {
        key.label = "Brief".to_owned();
        key.expires_at = Some(UtcTime(START.0 + DAY_MICROS));
    });
    brief.await
}

async fn ended_keys_are_deleted_after_their_time_in_pieces(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    let other = env.caller(&env.ann).await;
    brief(&env).await;
    for column in ["revoked_at", "expires_at"] {
        add_ended(&database, env.ann.id, 3_000, column, START.0).await;
    }
    set_day(&env, 1);
    let revoked = PersonalKeys::new(&env.catalog).delete_own(&ann, other.credential.id());
    revoked.await.unwrap();
    set_day(&env, 89);
    assert_eq!(prune(&env).await, [0; 0]);
    set_day(&env, 90);
    assert_eq!(prune(&env).await, [2_000, 1_000, 2_000, 1_000]);
    // Those that ended on the first day are kept for another moment.
    set_day(&env, 91);
    assert_eq!(prune(&env).await, [0; 0]);
    assert_eq!(labels(&database, env.ann.id).await.len(), 3);
    env.clock.set(Micros(START.0 + 91 * DAY_MICROS + 1));
    assert_eq!(prune(&env).await, [1, 1]);
    let left = PersonalKeys::new(&env.catalog)
        .list_own(&ann, FIRST)
        .await
        .unwrap();
    assert_eq!((left.count, left.rows[0].id), (1, ann.credential.id()));
}

async fn an_expired_key_that_works_again_stays(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (ann, brief) = (env.caller(&env.ann).await, brief(&env).await);
    set_day(&env, 80);
    let for_ever = OwnKeyChange {
        expires_at: Patch::Value(None),
        ..OwnKeyChange::default()
    };
    let changed = PersonalKeys::new(&env.catalog).update_own(&ann, brief.credential.id(), for_ever);
    changed.await.unwrap();
    set_day(&env, 1_000);
    assert_eq!(prune(&env).await, [0; 0]);
    assert_eq!(
        PersonalKeys::new(&env.catalog)
            .list_own(&ann, FIRST)
            .await
            .unwrap()
            .count,
        2
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_key_that_works_again_meanwhile_stays() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let env = TestEnv::new(&database).await;
    brief(&env).await;
    set_day(&env, 100);
    let revival = "UPDATE personal_api_keys SET expires_at = NULL";
    let revival = holding(&database, revival).await;
    let catalog = env.catalog.clone();
    let pruned = tokio::spawn(async move { Cleanup::new(&catalog).prune_keys(KEPT).await });
    until_one_waits(&database).await;
    revival.commit().await.unwrap();
    assert_eq!(pruned.await.unwrap().unwrap(), 0);
    assert_eq!(labels(&database, env.ann.id).await, ["Brief"]);
}

async fn a_new_key_replaces_the_first_of_a_thousand_that_ended(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let bob = env.user("bob").await;
    let most = u32::try_from(ENDED_KEYS_PER_USER_MAX).unwrap();
    add_ended(&database, env.ann.id, most - 2, "revoked_at", START.0).await;
    add_ended(&database, env.ann.id, 1, "expires_at", START.0 - 5_000).await;
    add_ended(&database, bob.id, most, "revoked_at", START.0).await;
    let first = async || labels(&database, env.ann.id).await.remove(0);
    let ann = env.caller(&env.ann).await;
    let other = env.caller(&env.ann).await;
    assert_eq!(first().await, "expires_at 1", "one less than a thousand");
    let revoked = PersonalKeys::new(&env.catalog).delete_own(&ann, other.credential.id());
    revoked.await.unwrap();
    for _ in 0..2 {
        env.caller(&env.ann).await;
        assert_eq!(first().await, format!("revoked_at {}", most - 2));
    }
    let of_bob = labels(&database, bob.id).await;
    assert_eq!(of_bob.len(), most as usize);
}

async fn keys_are_found_by_an_index(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let ann = env.caller(&env.ann).await;
    let (counted, count) = env.catalog.counted();
    Cleanup::new(&counted).prune_keys(KEPT).await.unwrap();
    PersonalKeys::new(&counted)
        .list_own(&ann, FIRST)
        .await
        .unwrap();
    let statements = count.take();
    assert_eq!(statements.len(), 4, "{statements:?}");
    if !database.is_sqlite() {
        return;
    }
    let indexes = [
        "personal_api_keys_revoked",
        "personal_api_keys_expiring",
        "personal_api_keys_of_user",
        "personal_api_keys_of_user",
    ];
    for (statement, index) in statements.iter().zip(indexes) {
        let plan = database.sqlite_plan(&statement.replace('?', "1")).await;
        let plan = plan.unwrap().join("\n");
        assert!(plan.contains(index), "{statement}: {plan}");
    }
}
