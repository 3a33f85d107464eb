//! Idempotency keys: claims, responses and their expiry.

use millrace_catalog::testing::TestDatabase;
use millrace_organizations::testing::test_env::{DAY_MICROS, START, TestEnv};
use millrace_organizations::{IdempotencyClaim, IdempotencyKeys, ResponseOwners, StoredResponse};
use millrace_rows::Micros;
use tokio::task::JoinSet;
use uuid::Uuid;

on_both!(
    a_claim_goes_from_new_over_in_progress_to_done,
    a_failure_releases_its_claim,
    a_lapsed_claim_cannot_end_the_next_one,
    claims_lapse_and_responses_expire,
    only_one_of_many_concurrent_claims_is_new,
);

const MINUTE_MICROS: i64 = 60_000_000;
/// Owners of the responses to anonymous requests.
const NOBODY: ResponseOwners = ResponseOwners {
    user_id: None,
    organization_id: None,
};

async fn claim(env: &TestEnv, id: &str, hash: &str) -> IdempotencyClaim {
    let claimed = IdempotencyKeys::new(&env.catalog).claim(id, hash, NOBODY);
    claimed.await.unwrap()
}

/// Claims a key that nobody has.
async fn claimed(env: &TestEnv, id: &str, hash: &str) -> Uuid {
    match claim(env, id, hash).await {
        IdempotencyClaim::New(name) => name,
        other => panic!("{id}: {other:?}"),
    }
}

async fn keep(env: &TestEnv, id: &str, name: Uuid, status: u16, body: &str) {
    let kept = IdempotencyKeys::new(&env.catalog).keep_answer(id, name, NOBODY, status, body);
    kept.await.unwrap();
}

async fn release(env: &TestEnv, id: &str, name: Uuid) {
    let released = IdempotencyKeys::new(&env.catalog).release(id, name);
    released.await.unwrap();
}

fn done(status: u16, body: &str) -> IdempotencyClaim {
    IdempotencyClaim::Done(StoredResponse {
        status,
        body: body.to_owned(),
    })
}

async fn a_claim_goes_from_new_over_in_progress_to_done(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let answered = |hash| IdempotencyKeys::new(&env.catalog).answer("a", hash);
    assert_eq!(answered("1").await.unwrap(), None);
    let name = claimed(&env, "a", "1").await;
    assert_eq!(claim(&env, "a", "1").await, IdempotencyClaim::InProgress);
    assert_eq!(claim(&env, "a", "2").await, IdempotencyClaim::Mismatch);
    for (hash, expected) in [
        ("1", IdempotencyClaim::InProgress),
        ("2", IdempotencyClaim::Mismatch),
    ] {
        assert_eq!(answered(hash).await.unwrap(), Some(expected));
    }
    claimed(&env, "b", "1").await;
    let body = "{\"ä\":1}";
    keep(&env, "a", name, 201, body).await;
    for (hash, expected) in [("1", done(201, body)), ("2", IdempotencyClaim::Mismatch)] {
        assert_eq!(answered(hash).await.unwrap().as_ref(), Some(&expected));
        assert_eq!(claim(&env, "a", hash).await, expected);
    }
    assert_eq!(claim(&env, "b", "1").await, IdempotencyClaim::InProgress);
}

async fn a_failure_releases_its_claim(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let name = claimed(&env, "a", "1").await;
    release(&env, "a", name).await;
    let name = claimed(&env, "a", "2").await;
    keep(&env, "a", name, 200, "").await;
    // A finished request stays finished.
    release(&env, "a", name).await;
    assert_eq!(claim(&env, "a", "2").await, done(200, ""));
}

async fn a_lapsed_claim_cannot_end_the_next_one(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let slow = claimed(&env, "a", "1").await;
    env.clock.set(Micros(START.0 + 2 * MINUTE_MICROS));
    let next = claimed(&env, "a", "1").await;
    release(&env, "a", slow).await;
    keep(&env, "a", slow, 200, "slow").await;
    assert_eq!(claim(&env, "a", "1").await, IdempotencyClaim::InProgress);
    keep(&env, "a", next, 200, "next").await;
    keep(&env, "a", slow, 200, "slow").await;
    assert_eq!(claim(&env, "a", "1").await, done(200, "next"));
}

async fn claims_lapse_and_responses_expire(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    claimed(&env, "dead", "1").await;
    let name = claimed(&env, "done", "1").await;
    keep(&env, "done", name, 200, "").await;
    let table = [
        (MINUTE_MICROS, "dead", Some(IdempotencyClaim::InProgress)),
        (2 * MINUTE_MICROS, "dead", None),
        (DAY_MICROS - 1, "done", Some(done(200, ""))),
        (DAY_MICROS, "done", None),
    ];
    for (after, id, expected) in table {
        env.clock.set(Micros(START.0 + after));
        let answered = IdempotencyKeys::new(&env.catalog)
            .answer(id, "1")
            .await
            .unwrap();
        assert_eq!(answered, expected, "{after}");
        match expected {
            Some(expected) => assert_eq!(claim(&env, id, "1").await, expected, "{after}"),
            None => drop(claimed(&env, id, "1").await),
        }
    }
}

async fn only_one_of_many_concurrent_claims_is_new(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        let catalog = env.catalog.clone();
        tasks.spawn(async move {
            let claimed = IdempotencyKeys::new(&catalog).claim("a", "1", NOBODY);
            claimed.await.unwrap()
        });
    }
    let claims = tasks.join_all().await;
    let is_new = |claim: &&IdempotencyClaim| matches!(claim, IdempotencyClaim::New(_));
    let new = claims.iter().filter(is_new);
    assert_eq!(new.count(), 1);
}
