//! Requests that are made once however often they are sent.

use crate::stand::{DAY_MICROS, START, Stand};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{IdempotencyClaim, KeptAnswer};
use millrace_rows::Micros;
use tokio::task::JoinSet;

on_both!(
    a_claim_goes_from_new_over_in_progress_to_done,
    a_failure_lets_go_of_its_claim,
    claims_lapse_and_answers_are_forgotten,
    of_many_claims_at_the_same_time_one_is_new,
);

const MINUTE_MICROS: i64 = 60_000_000;

async fn claim(stand: &Stand, id: &str, hash: &str) -> IdempotencyClaim {
    stand.catalog.claim_idempotency_key(id, hash).await.unwrap()
}

fn done(status: u16, body: &str) -> IdempotencyClaim {
    IdempotencyClaim::Done(KeptAnswer {
        status,
        body: body.to_owned(),
    })
}

async fn a_claim_goes_from_new_over_in_progress_to_done(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    assert_eq!(claim(&stand, "a", "1").await, IdempotencyClaim::New);
    assert_eq!(claim(&stand, "a", "1").await, IdempotencyClaim::InProgress);
    assert_eq!(claim(&stand, "a", "2").await, IdempotencyClaim::Mismatch);
    assert_eq!(claim(&stand, "b", "1").await, IdempotencyClaim::New);
    let body = "{\"ä\":1}";
    stand
        .catalog
        .keep_idempotent_answer("a", 201, body)
        .await
        .unwrap();
    assert_eq!(claim(&stand, "a", "1").await, done(201, body));
    assert_eq!(claim(&stand, "a", "2").await, IdempotencyClaim::Mismatch);
    assert_eq!(claim(&stand, "b", "1").await, IdempotencyClaim::InProgress);
}

async fn a_failure_lets_go_of_its_claim(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    claim(&stand, "a", "1").await;
    stand.catalog.release_idempotency_key("a").await.unwrap();
    assert_eq!(claim(&stand, "a", "2").await, IdempotencyClaim::New);
    stand
        .catalog
        .keep_idempotent_answer("a", 200, "")
        .await
        .unwrap();
    // What is done stays done.
    stand.catalog.release_idempotency_key("a").await.unwrap();
    assert_eq!(claim(&stand, "a", "2").await, done(200, ""));
}

async fn claims_lapse_and_answers_are_forgotten(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    claim(&stand, "dead", "1").await;
    claim(&stand, "done", "1").await;
    stand
        .catalog
        .keep_idempotent_answer("done", 200, "")
        .await
        .unwrap();
    let start = START;
    let table = [
        (MINUTE_MICROS, "dead", IdempotencyClaim::InProgress),
        (2 * MINUTE_MICROS, "dead", IdempotencyClaim::New),
        (DAY_MICROS - 1, "done", done(200, "")),
        (DAY_MICROS, "done", IdempotencyClaim::New),
    ];
    for (after, id, expected) in table {
        stand.clock.set(Micros(start.0 + after));
        assert_eq!(claim(&stand, id, "1").await, expected, "{id} after {after}");
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
    let new = claims
        .iter()
        .filter(|claim| **claim == IdempotencyClaim::New);
    assert_eq!(new.count(), 1);
}
