//! Bounds of the bytes that responses to requests with an idempotency key take.

use crate::test_env::{START, TestEnv};
use millrace_catalog::limits::{RESPONSE_BYTES_PER_ORGANIZATION_MAX, RESPONSE_BYTES_PER_USER_MAX};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, IdempotencyClaim, ResponseOwners, ResponsesFull, StoredResponse};
use millrace_rows::Micros;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

on_both!(
    a_user_and_an_organization_store_so_many_bytes_a_day,
    a_stored_response_counts_for_its_user_and_organization,
    known_requests_are_answered_where_no_more_can_be_stored,
);

const HOUR_MICROS: i64 = 3_600_000_000;
const HOUR: Duration = Duration::from_secs(3_600);
/// Bytes that a response counts for beside its body.
const ROW_BYTES: u64 = 512;

fn owners(env: &TestEnv) -> ResponseOwners {
    ResponseOwners {
        user_id: Some(env.ann.id),
        organization_id: Some(env.organization),
    }
}

async fn claim(catalog: &Catalog, id: &str, owners: ResponseOwners) -> IdempotencyClaim {
    let claimed = catalog.claim_idempotency_key(id, "1", owners).await;
    claimed.unwrap()
}

async fn claimed(env: &TestEnv, id: &str) -> Uuid {
    match claim(&env.catalog, id, owners(env)).await {
        IdempotencyClaim::New(name) => name,
        other => panic!("{id}: {other:?}"),
    }
}

/// Writes the bytes that a holder stored in an hour before now.
async fn stored(database: &TestDatabase, holder: &str, hours_ago: i64, bytes: u64) {
    let hour = START.0 - hours_ago * HOUR_MICROS;
    let row = format!(
        "INSERT INTO idempotency_bytes (holder, hour, bytes) VALUES ('{holder}', {hour}, {bytes})"
    );
    database.execute(&row).await.unwrap();
}

async fn counts(database: &TestDatabase) -> Vec<String> {
    let rows = "SELECT holder || ' ' || CAST(bytes AS TEXT) FROM idempotency_bytes \
        ORDER BY hour, holder";
    database.first_column(rows).await.unwrap()
}

fn full(is_of_organization: bool, wait: Duration) -> Option<ResponsesFull> {
    let bytes_max = match is_of_organization {
        true => RESPONSE_BYTES_PER_ORGANIZATION_MAX,
        false => RESPONSE_BYTES_PER_USER_MAX,
    };
    Some(ResponsesFull {
        is_of_organization,
        bytes_max,
        wait,
    })
}

async fn a_user_and_an_organization_store_so_many_bytes_a_day(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let of_user = RESPONSE_BYTES_PER_USER_MAX;
    let of_organization = RESPONSE_BYTES_PER_ORGANIZATION_MAX;
    let (user, other_user) = (
        format!("user {}", env.ann.id),
        format!("user {}", env.ann.id + 1),
    );
    let (organization, other_organization) = (
        format!("organization {}", env.organization),
        format!("organization {}", Uuid::nil()),
    );
    let table = [
        (&user, 0, of_user - 1, None),
        (&user, 0, of_user, full(false, 25 * HOUR)),
        (&user, 24, of_user, full(false, HOUR)),
        (&user, 25, of_user, None),
        (&other_user, 0, of_user, None),
        (&organization, 0, of_organization - 1, None),
        (&organization, 3, of_organization, full(true, 22 * HOUR)),
        (&other_organization, 0, of_organization, None),
    ];
    for (number, (holder, hours_ago, bytes, expected)) in table.into_iter().enumerate() {
        let delete = "DELETE FROM idempotency_bytes";
        database.execute(delete).await.unwrap();
        stored(&database, holder, hours_ago, bytes).await;
        let claimed = claim(&env.catalog, &number.to_string(), owners(&env)).await;
        let refused = match claimed {
            IdempotencyClaim::Full(full) => Some(full),
            IdempotencyClaim::New(_) => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused, expected, "{holder}, {hours_ago} hours ago");
    }
    // Hours add up.
    let delete = "DELETE FROM idempotency_bytes";
    database.execute(delete).await.unwrap();
    for hours_ago in [1, 2] {
        stored(&database, &user, hours_ago, of_user / 2).await;
    }
    let refused = claim(&env.catalog, "sum", owners(&env)).await;
    let expected = full(false, 23 * HOUR).map(IdempotencyClaim::Full);
    assert_eq!(Some(refused), expected);
}

async fn a_stored_response_counts_for_its_user_and_organization(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let keep = async |id: &str, name: Uuid, bytes: usize| {
        let body = "x".repeat(bytes);
        let kept = env
            .catalog
            .keep_idempotent_answer(id, name, owners(&env), 201, &body);
        kept.await.unwrap();
    };
    let rows = |bytes: u64| {
        [
            format!("organization {} {bytes}", env.organization),
            format!("user {} {bytes}", env.ann.id),
        ]
    };
    let first = claimed(&env, "first").await;
    assert_eq!(counts(&database).await, [""; 0]);
    keep("first", first, 1_000).await;
    let second = claimed(&env, "second").await;
    keep("second", second, 2_000).await;
    let both = rows(3_000 + 2 * ROW_BYTES);
    assert_eq!(counts(&database).await, both);
    // Neither a released claim counts, nor a response that came after its claim had ended.
    let released = claimed(&env, "released").await;
    let release = env.catalog.release_idempotency_key("released", released);
    release.await.unwrap();
    keep("released", released, 5).await;
    keep("first", first, 5).await;
    assert_eq!(counts(&database).await, both);
    env.clock.set(Micros(START.0 + HOUR_MICROS));
    let third = claimed(&env, "third").await;
    keep("third", third, 0).await;
    assert_eq!(
        counts(&database).await,
        [both.clone(), rows(ROW_BYTES)].concat()
    );
    // Counts of an hour are deleted when its responses are forgotten.
    let kept = Duration::from_secs(86_400);
    for (hours, left) in [
        (24, [both, rows(ROW_BYTES)].concat()),
        (25, rows(ROW_BYTES).to_vec()),
    ] {
        env.clock.set(Micros(START.0 + hours * HOUR_MICROS));
        while env.catalog.prune_people(kept).await.unwrap() > 0 {}
        assert_eq!(counts(&database).await, left, "{hours} hours");
    }
}

async fn known_requests_are_answered_where_no_more_can_be_stored(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let done = claimed(&env, "done").await;
    let kept = env
        .catalog
        .keep_idempotent_answer("done", done, owners(&env), 201, "{}");
    kept.await.unwrap();
    claimed(&env, "running").await;
    let user = format!("user {}", env.ann.id);
    stored(&database, &user, 1, RESPONSE_BYTES_PER_USER_MAX).await;
    // Another process refuses, too.
    let clock = Arc::new(env.clock.clone());
    let other = Catalog::open_with_clock(database.url(), clock).await;
    let other = other.unwrap();
    let response = StoredResponse {
        status: 201,
        body: "{}".to_owned(),
    };
    let refused = full(false, 24 * HOUR).map(IdempotencyClaim::Full).unwrap();
    let table = [
        ("done", IdempotencyClaim::Done(response)),
        ("running", IdempotencyClaim::InProgress),
        ("new", refused.clone()),
        ("new", refused),
    ];
    for catalog in [&env.catalog, &other] {
        for (id, expected) in &table {
            assert_eq!(&claim(catalog, id, owners(&env)).await, expected, "{id}");
        }
        let mismatch = catalog.claim_idempotency_key("done", "2", owners(&env));
        assert_eq!(mismatch.await.unwrap(), IdempotencyClaim::Mismatch);
    }
    env.clock.set(Micros(START.0 + 24 * HOUR_MICROS));
    claimed(&env, "new").await;
}
