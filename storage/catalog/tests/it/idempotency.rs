//! Requests that are made once however often they are sent.

use crate::stand::{DAY_MICROS, START, Stand};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{IdempotencyClaim, KeptAnswer};
use millrace_rows::Micros;
use tokio::task::JoinSet;
use uuid::Uuid;

on_both!(
    a_claim_goes_from_new_over_in_progress_to_done,
    a_failure_lets_go_of_its_claim,
    a_claim_that_lapsed_is_the_next_ones_alone,
    claims_lapse_and_answers_are_forgotten,
    of_many_claims_at_the_same_time_one_is_new,
);

const MINUTE_MICROS: i64 = 60_000_000;

async fn claim(stand: &Stand, id: &str, hash: &str) -> IdempotencyClaim {
    stand.catalog.claim_idempotency_key(id, hash).await.unwrap()
}

/// Claims what nobody has.
async fn claimed(stand: &Stand, id: &str, hash: &str) -> Uuid {
    match claim(stand, id, hash).await {
        IdempotencyClaim::New(name) => name,
        other => panic!("{id}: {other:?}"),
    }
}

async fn keep(stand: &Stand, id: &str, name: Uuid, status: u16, body: &str) {
    let kept = stand.catalog.keep_idempotent_answer(id, name, status, body);
    kept.await.unwrap();
}

async fn release(stand: &Stand, id: &str, name: Uuid) {
    let released = stand.catalog.release_idempotency_key(id, name);
    released.await.unwrap();
}

fn done(status: u16, body: &str) -> IdempotencyClaim {
    IdempotencyClaim::Done(KeptAnswer {
        status,
        body: body.to_owned(),
    })
}

async fn a_claim_goes_from_new_over_in_progress_to_done(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let answered = |hash| stand.catalog.idempotent_answer("a", hash);
    assert_eq!(answered("1").await.unwrap(), None);
    let name = claimed(&stand, "a", "1").await;
    assert_eq!(claim(&stand, "a", "1").await, IdempotencyClaim::InProgress);
    assert_eq!(claim(&stand, "a", "2").await, IdempotencyClaim::Mismatch);
    for (hash, expected) in [
        ("1", IdempotencyClaim::InProgress),
        ("2", IdempotencyClaim::Mismatch),
    ] {
        assert_eq!(answered(hash).await.unwrap(), Some(expected));
    }
    claimed(&stand, "b", "1").await;
    let body = "{\"ä\":1}";
    keep(&stand, "a", name, 201, body).await;
    for (hash, expected) in [("1", done(201, body)), ("2", IdempotencyClaim::Mismatch)] {
        assert_eq!(answered(hash).await.unwrap().as_ref(), Some(&expected));
        assert_eq!(claim(&stand, "a", hash).await, expected);
    }
    assert_eq!(claim(&stand, "b", "1").await, IdempotencyClaim::InProgress);
}

async fn a_failure_lets_go_of_its_claim(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let name = claimed(&stand, "a", "1").await;
    release(&stand, "a", name).await;
    let name = claimed(&stand, "a", "2").await;
    keep(&stand, "a", name, 200, "").await;
    // What is done stays done.
    release(&stand, "a", name).await;
    assert_eq!(claim(&stand, "a", "2").await, done(200, ""));
}

async fn a_claim_that_lapsed_is_the_next_ones_alone(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let slow = claimed(&stand, "a", "1").await;
    stand.clock.set(Micros(START.0 + 2 * MINUTE_MICROS));
    let next = claimed(&stand, "a", "1").await;
    release(&stand, "a", slow).await;
    keep(&stand, "a", slow, 200, "slow").await;
    assert_eq!(claim(&stand, "a", "1").await, IdempotencyClaim::InProgress);
    keep(&stand, "a", next, 200, "next").await;
    keep(&stand, "a", slow, 200, "slow").await;
    assert_eq!(claim(&stand, "a", "1").await, done(200, "next"));
}

async fn claims_lapse_and_answers_are_forgotten(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    claimed(&stand, "dead", "1").await;
    let name = claimed(&stand, "done", "1").await;
    keep(&stand, "done", name, 200, "").await;
    let table = [
        (MINUTE_MICROS, "dead", Some(IdempotencyClaim::InProgress)),
        (2 * MINUTE_MICROS, "dead", None),
        (DAY_MICROS - 1, "done", Some(done(200, ""))),
        (DAY_MICROS, "done", None),
    ];
    for (after, id, expected) in table {
        stand.clock.set(Micros(START.0 + after));
        let answered = stand.catalog.idempotent_answer(id, "1").await.unwrap();
        assert_eq!(answered, expected, "{after}");
        match expected {
            Some(expected) => assert_eq!(claim(&stand, id, "1").await, expected, "{after}"),
            None => drop(claimed(&stand, id, "1").await),
        }
    }
}

async fn of_many_claims_at_the_same_time_one_is_new(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        let catalog = stand.catalog.clone();
        tasks.spawn(async move { catalog.claim_idempotency_key("a", "1").await.unwrap() });
    }
    let claims = tasks.join_all().await;
    let is_new = |claim: &&IdempotencyClaim| matches!(claim, IdempotencyClaim::New(_));
    let new = claims.iter().filter(is_new);
    assert_eq!(new.count(), 1);
}
