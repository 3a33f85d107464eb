//! Section 6: the per-event protocol.

use crate::client::TestResponse;
use crate::test_env::{KEY, TestEnv};
use serde_json::{Value, json};

const PATH: &str = "/i/v1/analytics/events";

fn post(env: &TestEnv, authorization: Option<&str>, body: &Value) -> TestResponse {
    let headers: Vec<_> = authorization
        .map(|value| ("Authorization", value))
        .into_iter()
        .collect();
    env.client()
        .post(PATH, &headers, body.to_string().as_bytes())
}

fn event(name: &str, uuid: &str) -> Value {
    json!({"event": name, "uuid": uuid, "distinct_id": "d",
        "timestamp": "2026-11-20T14:37:59Z", "properties": {}})
}

const FIRST: &str = "01990000-0000-7000-8000-000000000001";
const SECOND: &str = "01990000-0000-7000-8000-000000000002";

#[test]
fn results_are_listed_by_uuid() {
    let env = TestEnv::start();
    let body = json!({"created_at": "2026-11-20T14:38:00Z",
        "batch": [event("good", FIRST), event("", SECOND)]});
    let answer = post(&env, Some(&format!("Bearer {KEY}")), &body);
    assert_eq!(answer.status, 200);
    let results = &answer.json()["results"];
    assert_eq!(results[FIRST], json!({"result": "ok"}));
    assert_eq!(results[SECOND]["result"], "drop");
    assert_eq!(results[SECOND]["details"], "missing_event");
    let rows = env.rows();
    assert_eq!((rows.names(), rows.rejected.len()), (vec!["good"], 1));
}

#[test]
fn errors_carry_the_keys_of_both_protocols() {
    let env = TestEnv::start();
    let good = json!({"batch": [event("good", FIRST)]});
    let repeated = json!({"batch": [event("good", FIRST), event("good", FIRST)]});
    let key = format!("Bearer {KEY}");
    let table: [(Option<&str>, &Value, u16, &str); 5] = [
        (None, &good, 401, "missing_api_key"),
        (Some("Bearer "), &good, 401, "missing_api_key"),
        (Some("Basic abc"), &good, 401, "missing_api_key"),
        (
            Some("Bearer phc_nobodys0000000000000000000000000000000000"),
            &good,
            401,
            "unknown_api_key",
        ),
        (Some(&key), &repeated, 400, "repeated_uuid"),
    ];
    for (authorization, body, status, code) in table {
        let answer = post(&env, authorization, body);
        let got = (answer.status, answer.code());
        assert_eq!(got, (status, code.to_owned()), "{authorization:?}");
        let json = answer.json();
        assert_eq!(json["error"], code, "{authorization:?}");
        assert_eq!(
            json["error_description"], json["detail"],
            "{authorization:?}"
        );
    }
    assert_eq!(env.rows().events.len(), 0);
}

#[test]
fn rows_that_a_header_makes_large_are_503_over_the_process_budget() {
    let env = TestEnv::with(|options| options.server.limits.in_flight_bytes_max = 400_000);
    let event = |number: u128| {
        let uuid = uuid::Uuid::from_u128(number).to_string();
        json!({"event": "e", "distinct_id": "d", "uuid": uuid})
    };
    let events: Vec<_> = (1..=1_000).map(event).collect();
    let body = json!({"batch": events}).to_string();
    let key = format!("Bearer {KEY}");
    // Each quote is two bytes of each row.
    let quotes = "\"".repeat(128);
    let long = format!("{quotes}/{quotes}");
    for (sdk_info, status) in [(&*long, 503), ("a/1", 200)] {
        let headers = [("Authorization", &*key), ("PostHog-Sdk-Info", sdk_info)];
        let answer = env.client().post(PATH, &headers, body.as_bytes());
        assert_eq!(answer.status, status, "{sdk_info}");
    }
    assert_eq!(env.rows().events.len(), 1_000);
}
