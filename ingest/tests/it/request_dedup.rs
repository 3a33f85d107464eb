//! Request dedup: a request that is sent again gets the same response and is not stored again; a
//! request that is only like it is stored.

use crate::client::{Client, TestResponse, request};
use crate::encodings::gzip;
use crate::test_env::{KEY, OTHER_KEY, TestEnv, batch, event};
use millrace_pipeline::Ack;
use millrace_rows::Lane;
use serde_json::{Value, json};
use std::time::Duration;

const V1: &str = "/i/v1/analytics/events";

fn with_uuid(name: &str, uuid: u128) -> Value {
    let mut event = event(name);
    event["uuid"] = uuid::Uuid::from_u128(uuid).to_string().into();
    event
}

fn batch_of(events: &[Value]) -> String {
    json!({"api_key": KEY, "batch": events}).to_string()
}

fn post_v1(env: &TestEnv, sdk_info: &str, events: &[Value]) -> TestResponse {
    let key = format!("Bearer {KEY}");
    let headers = [("Authorization", &*key), ("PostHog-Sdk-Info", sdk_info)];
    let body = json!({"batch": events}).to_string();
    env.client().post(V1, &headers, body.as_bytes())
}

#[test]
fn a_request_sent_again_is_acknowledged_and_not_stored_again() {
    let env = TestEnv::start();
    let first = batch_of(&[with_uuid("a", 1), with_uuid("b", 2)]);
    let again = batch_of(&[with_uuid("a", 1), with_uuid("b", 2)]);
    assert_eq!(env.post("/batch/", &first).status, 200);
    assert_eq!(env.post("/e/", &again).status, 200);
    assert_eq!(env.rows().events.len(), 2);
    // Another list, and a list with an event that has no uuid, are other requests.
    let other = batch_of(&[with_uuid("b", 2), with_uuid("a", 1)]);
    assert_eq!(env.post("/batch/", &other).status, 200);
    let partly = batch_of(&[with_uuid("a", 1), event("c")]);
    assert_eq!(env.post("/batch/", &partly).status, 200);
    assert_eq!(env.post("/batch/", &partly).status, 200);
    assert_eq!(env.rows().events.len(), 8);
}

#[test]
fn requests_that_are_alike_in_their_uuids_only_are_all_stored() {
    let env = TestEnv::start();
    let created = with_uuid("order created", 1);
    let mut paid = with_uuid("order paid", 1);
    paid["distinct_id"] = json!("u2");
    let mut cheaper = created.clone();
    cheaper["properties"] = json!({"n": 2});
    let mut earlier = created.clone();
    earlier["timestamp"] = json!("2026-11-20T14:37:58Z");
    let all = [created, paid, cheaper, earlier];
    for (nth, event) in all.iter().enumerate() {
        let mut single = event.clone();
        single["api_key"] = json!(KEY);
        let array = json!([single]).to_string();
        let events = std::slice::from_ref(event);
        let historical = json!({"api_key": KEY, "historical_migration": true, "batch": events});
        let of_other = json!({"api_key": OTHER_KEY, "batch": events});
        let bodies = [
            batch_of(events),
            array,
            single.to_string(),
            historical.to_string(),
            of_other.to_string(),
        ];
        for body in bodies {
            assert_eq!(env.post("/batch/", &body).status, 200, "{body}");
        }
        for sdk_info in ["posthog-python/7.91.1", "posthog-node/5.1.0"] {
            let answer = post_v1(&env, sdk_info, events);
            assert_eq!(answer.status, 200, "{event}");
        }
        assert_eq!(env.rows().events.len(), (nth + 1) * 7, "{event}");
    }
}

#[test]
fn fields_that_an_sdk_renews_when_it_retries_make_no_other_request() {
    let env = TestEnv::start();
    let tries = ["2026-11-20T14:38:00Z", "2026-11-20T14:38:16.5Z"];
    let mut client = env.client();
    for (nth, sent_at) in tries.into_iter().enumerate() {
        let target = format!("/batch/?retry_count={nth}&_={nth}");
        let batch = json!({"api_key": KEY, "sent_at": sent_at, "batch": [with_uuid("a", 1)]});
        let batch = batch.to_string();
        let gzipped = gzip(batch.as_bytes());
        let mut single = with_uuid("b", 2);
        single["api_key"] = json!(KEY);
        single["sentAt"] = json!(sent_at);
        let single = single.to_string();
        let bodies: [(&[u8], &[_]); 3] = [
            (batch.as_bytes(), &[]),
            (&gzipped, &[("Content-Encoding", "gzip")]),
            (single.as_bytes(), &[("User-Agent", sent_at)]),
        ];
        for (body, headers) in bodies {
            assert_eq!(client.post(&target, headers, body).status, 200);
        }
        let key = format!("Bearer {KEY}");
        let number = nth.to_string();
        let headers = [
            ("Authorization", &*key),
            ("PostHog-Attempt", &number),
            ("PostHog-Request-Timestamp", sent_at),
        ];
        let body = json!({"created_at": sent_at, "batch": [with_uuid("c", 3)]}).to_string();
        let answer = client.post(V1, &headers, body.as_bytes());
        assert_eq!(answer.status, 200);
        env.pass(Duration::from_secs(16));
    }
    assert_eq!(env.rows().names(), ["a", "b", "c"]);
}

#[test]
fn a_resend_gets_the_response_of_the_first_request() {
    let env = TestEnv::start();
    let mut nameless = with_uuid("a", 1);
    nameless["event"] = json!("");
    let mut odd = with_uuid("b", 2);
    odd["distinct_id"] = json!("undefined");
    let partly = [nameless.clone(), odd.clone(), with_uuid("c", 3)];
    let told = |events: &[Value], query: &str| {
        let answer = env.post(&format!("/batch/{query}"), batch_of(events));
        (answer.status, answer.json())
    };
    // Dry runs and requests that store nothing, before and after.
    for _ in 0..2 {
        assert_eq!(told(&partly, "?dry_run=true").1["accepted"], 2);
        assert_eq!(told(&partly, "?strict=true").0, 400);
        let first = told(&partly, "");
        assert_eq!(told(&partly, ""), first);
        assert_eq!(first.0, 200);
        assert_eq!(first.1["accepted"], 2);
        assert_eq!(first.1["rejected"][0]["code"], "missing_event");
        assert_eq!(first.1["warnings"][0]["code"], "illegal_distinct_id");
        let refused = told(std::slice::from_ref(&nameless), "");
        assert_eq!((refused.0, &refused.1["rejected_count"]), (400, &json!(1)));
        let per_event = post_v1(&env, "", &partly);
        assert_eq!(per_event.json(), post_v1(&env, "", &partly).json());
    }
    let rows = env.rows();
    assert_eq!(rows.names(), ["b", "c", "b", "c"]);
    assert_eq!(rows.rejected.len(), 3);
}

#[test]
fn a_request_that_was_not_stored_is_not_known() {
    let env = TestEnv::with(|options| options.pipeline.log_bytes_max = 16 << 20);
    let large = |number: u128| {
        let mut event = with_uuid("large", number);
        // Text that hardly compresses.
        let words = (0..20_000).map(|nth| digits(number, nth));
        event["properties"] = json!({"text": words.collect::<String>()});
        batch_of(&[event])
    };
    let refused = (1..200).find(|number| env.post("/batch/", large(*number)).status == 503);
    let refused = refused.expect("the log has no end");
    env.release_logs();
    assert_eq!(env.post("/batch/", large(refused)).status, 200);
    let id = uuid::Uuid::from_u128(refused);
    assert!(env.rows().events.iter().any(|row| row.uuid == id));
}

/// Returns digits that follow no pattern.
fn digits(seed: u128, nth: u64) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (seed, nth).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[test]
fn under_ack_clickhouse_a_repeated_request_is_recognized_after_its_commit() {
    let env = TestEnv::with(|options| {
        options.pipeline.ack = Ack::ClickHouse;
        options.server.workers = 1;
    });
    let body = batch_of(&[with_uuid("a", 1)]);
    // ClickHouse is unreachable, so no request is answered.
    let mut first = sent(&env, &body);
    env.until_stored(1);
    // Requests of an earlier group have been noted by then.
    let mut marker = sent(&env, &batch(&["marker"]));
    env.until_stored(2);
    let mut again = [0; 3].map(|_| sent(&env, &body));
    while env.pipeline.queue_requests(Lane::Live) < 5 {
        std::thread::yield_now();
    }
    env.ship();
    for client in again.iter_mut().chain([&mut first, &mut marker]) {
        assert_eq!(client.read().status, 200);
    }
    assert_eq!(env.post("/batch/", &body).status, 200);
    assert_eq!(env.rows().names(), ["a", "marker"]);
}

/// Sends a request on a connection, and does not wait for the response.
fn sent(env: &TestEnv, body: &str) -> Client {
    let mut client = env.client();
    client.send(&request("POST", "/batch/", &[], body.as_bytes()));
    client
}

#[test]
fn with_acknowledgements_from_memory_a_request_is_known_once_it_is_stored() {
    let env = TestEnv::with(|options| options.pipeline.ack = Ack::Memory);
    let body = batch_of(&[with_uuid("a", 1)]);
    let count = |name: &str| {
        let rows = env.rows();
        rows.names().iter().filter(|it| **it == name).count()
    };
    assert_eq!(env.post("/batch/", &body).status, 200);
    let mut markers = 0;
    loop {
        let before = count("a");
        assert_eq!(env.post("/batch/", &body).status, 200);
        // Rows that were stored of it lie before the marker.
        assert_eq!(env.post("/batch/", batch(&["marker"])).status, 200);
        markers += 1;
        while count("marker") < markers {
            std::thread::yield_now();
        }
        if before > 0 && count("a") == before {
            break;
        }
    }
}
