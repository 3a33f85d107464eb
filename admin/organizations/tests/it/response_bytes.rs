//! Bounds of the bytes that responses to requests with an idempotency key take.

use millrace_catalog::Catalog;
use millrace_catalog::limits::{
    RESPONSE_BYTES_PER_ORGANIZATION_MAX, RESPONSE_BYTES_PER_USER_MAX,
    RESPONSE_BYTES_RESERVED_PER_USER,
};
use millrace_catalog::testing::{TestDatabase, numbers};
use millrace_organizations::testing::test_env::{DAY_MICROS, START, TestEnv};
use millrace_organizations::{
    IdempotencyClaim, IdempotencyKeys, ResponseOwners, ResponsesFull, StoredResponse,
};
use millrace_rows::Micros;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use uuid::Uuid;

on_both!(
    a_user_stores_so_many_bytes_a_day,
    an_organization_stores_so_many_bytes_a_day_and_keeps_no_user_out,
    a_stored_response_counts_for_its_user_and_organization,
    responses_that_are_stored_at_the_same_time_all_count,
    known_requests_are_answered_where_no_more_can_be_stored,
    forgotten_responses_are_deleted_in_pieces,
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
    let claimed = IdempotencyKeys::new(catalog).claim(id, "1", owners).await;
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

async fn claimed_or_full(env: &TestEnv, id: usize) -> Option<ResponsesFull> {
    match claim(&env.catalog, &id.to_string(), owners(env)).await {
        IdempotencyClaim::Full(full) => Some(full),
        IdempotencyClaim::New(_) => None,
        other => panic!("{id}: {other:?}"),
    }
}

/// Replaces all counts; each is a holder, the hours since, and bytes.
async fn set_counts(database: &TestDatabase, counts: &[(&str, i64, u64)]) {
    let delete = "DELETE FROM idempotency_bytes";
    database.execute(delete).await.unwrap();
    for (holder, hours_ago, bytes) in counts {
        stored(database, holder, *hours_ago, *bytes).await;
    }
}

async fn a_user_stores_so_many_bytes_a_day(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let most = RESPONSE_BYTES_PER_USER_MAX;
    let user = format!("user {}", env.ann.id);
    let other = format!("user {}", env.ann.id + 1);
    let (user, other) = (user.as_str(), other.as_str());
    let full = |hours: u32| full(false, hours * HOUR);
    let table = [
        (vec![(user, 0, most - 1)], None),
        (vec![(user, 0, most)], full(25)),
        (vec![(user, 24, most)], full(1)),
        (vec![(user, 25, most)], None),
        (vec![(other, 0, most)], None),
        // Hours add up, and one is waited for after whose end the budget has enough.
        (vec![(user, 2, most / 2), (user, 1, most / 2)], full(23)),
        (vec![(user, 2, most), (user, 1, most / 2)], full(23)),
        (vec![(user, 2, 1), (user, 1, most)], full(24)),
        // A clock that was ahead by minutes counts, and one by years does not.
        (vec![(user, -1, most)], full(26)),
        (vec![(user, -9_000, most)], None),
    ];
    for (number, (counts, expected)) in table.into_iter().enumerate() {
        set_counts(&database, &counts).await;
        let refused = claimed_or_full(&env, number).await;
        assert_eq!(refused, expected, "{counts:?}");
    }
}

async fn an_organization_stores_so_many_bytes_a_day_and_keeps_no_user_out(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (most, reserved) = (
        RESPONSE_BYTES_PER_ORGANIZATION_MAX,
        RESPONSE_BYTES_RESERVED_PER_USER,
    );
    let user = format!("user {}", env.ann.id);
    let here = format!("organization {}", env.organization);
    let elsewhere = format!("organization {}", Uuid::nil());
    let table = [
        (&here, reserved, most - 1, None),
        (&here, reserved, most, full(true, 22 * HOUR)),
        (&here, reserved - 1, most, None),
        (&here, 0, 2 * most, None),
        (&elsewhere, reserved, most, None),
    ];
    for (number, (organization, of_user, bytes, expected)) in table.into_iter().enumerate() {
        let counts = [
            (user.as_str(), 1, of_user),
            (organization.as_str(), 3, bytes),
        ];
        set_counts(&database, &counts).await;
        let refused = claimed_or_full(&env, number).await;
        assert_eq!(refused, expected, "{counts:?}");
    }
}

async fn a_stored_response_counts_for_its_user_and_organization(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let keep = async |id: &str, name: Uuid, bytes: usize| {
        let body = "x".repeat(bytes);
        let kept =
            IdempotencyKeys::new(&env.catalog).keep_answer(id, name, owners(&env), 201, &body);
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
    let release = IdempotencyKeys::new(&env.catalog).release("released", released);
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
    for (hours, left) in [
        (24, [both, rows(ROW_BYTES)].concat()),
        (25, rows(ROW_BYTES).to_vec()),
        (26, Vec::new()),
    ] {
        env.clock.set(Micros(START.0 + hours * HOUR_MICROS));
        while IdempotencyKeys::new(&env.catalog)
            .prune_responses()
            .await
            .unwrap()
            > 0
        {}
        assert_eq!(counts(&database).await, left, "{hours} hours");
    }
}

async fn responses_that_are_stored_at_the_same_time_all_count(database: TestDatabase) {
    const REQUESTS: u64 = 32;
    let env = Arc::new(TestEnv::new(&database).await);
    let mut requests = JoinSet::new();
    for number in 0..REQUESTS {
        let env = env.clone();
        requests.spawn(async move {
            let id = format!("request {number}");
            let name = claimed(&env, &id).await;
            let kept =
                IdempotencyKeys::new(&env.catalog).keep_answer(&id, name, owners(&env), 201, "{}");
            kept.await.unwrap();
        });
    }
    requests.join_all().await;
    let bytes = REQUESTS * (ROW_BYTES + 2);
    let expected = [
        format!("organization {} {bytes}", env.organization),
        format!("user {} {bytes}", env.ann.id),
    ];
    assert_eq!(counts(&database).await, expected);
}

async fn known_requests_are_answered_where_no_more_can_be_stored(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let done = claimed(&env, "done").await;
    let kept =
        IdempotencyKeys::new(&env.catalog).keep_answer("done", done, owners(&env), 201, "{}");
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
        let mismatch = IdempotencyKeys::new(catalog).claim("done", "2", owners(&env));
        assert_eq!(mismatch.await.unwrap(), IdempotencyClaim::Mismatch);
    }
    env.clock.set(Micros(START.0 + 24 * HOUR_MICROS));
    claimed(&env, "new").await;
}

async fn forgotten_responses_are_deleted_in_pieces(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let insert = async |name: &str, rows: u32, body: &str, micros_ago: i64| {
        let insert = format!(
            "INSERT INTO idempotency_keys (id, request_hash, status, body, created_at) {} \
             SELECT '{name} ' || i, '1', 200, {body}, {} FROM n",
            numbers(rows),
            START.0 - micros_ago
        );
        database.execute(&insert).await.unwrap();
    };
    let mebibytes = match database.is_sqlite() {
        true => "hex(zeroblob(1572864))",
        false => "repeat('x', 3145728)",
    };
    insert("large", 4, mebibytes, 3 * DAY_MICROS).await;
    insert("small", 150, "'{}'", 2 * DAY_MICROS).await;
    insert("known", 1, "'{}'", DAY_MICROS - 1).await;
    let mut pieces = Vec::new();
    loop {
        match IdempotencyKeys::new(&env.catalog)
            .prune_responses()
            .await
            .unwrap()
        {
            0 => break,
            rows => pieces.push(rows),
        }
    }
    // 9 MiB, and then a hundred with those 3 MiB that were left.
    assert_eq!(pieces, [3, 100, 51]);
    let left = database.first_column("SELECT id FROM idempotency_keys");
    assert_eq!(left.await.unwrap(), ["known 1"]);
}
