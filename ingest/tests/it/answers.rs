//! Section 5: responses to clients, and the rows that are stored.

use crate::rows::properties;
use crate::test_env::{KEY, NOW, TestEnv, batch, event};
use millrace_rows::Micros;
use serde_json::{Value, json};

fn batch_of(events: &[Value]) -> String {
    json!({"api_key": KEY, "batch": events}).to_string()
}

fn nameless() -> Value {
    json!({"distinct_id": "d", "properties": {"why": "no name"}})
}

#[test]
fn a_beacon_is_answered_204_whenever_others_are_answered_200() {
    let env = TestEnv::start();
    let table = [
        (batch(&["e"]), 204),
        (batch_of(&[event("e"), nameless()]), 204),
        (batch_of(&[nameless()]), 400),
        ("{".to_owned(), 400),
    ];
    for (body, status) in table {
        let answer = env.post("/e/?beacon=1", &body);
        assert_eq!(answer.status, status, "{body}");
        assert_eq!(answer.body.is_empty(), status == 204, "{body}");
    }
}

/// Regression: results that a beacon never gets had to have a share of the budget.
#[test]
fn a_beacon_needs_no_memory_for_results() {
    let env = TestEnv::with(|options| options.server.limits.in_flight_bytes_max = 512 << 10);
    let id = |number: u32| json!({"uuid": format!("01990000-0000-7000-8000-{number:012}")});
    let events: Vec<Value> = (0..1_000).map(id).collect();
    let body = json!({"created_at": "2026-11-20T14:38:00Z", "batch": events}).to_string();
    let key = format!("Bearer {KEY}");
    for (beacon, status) in [("", 503), ("&beacon=1", 204)] {
        let answer = env.client().post(
            &format!("/i/v1/analytics/events?dry_run=true{beacon}"),
            &[("Authorization", &key)],
            body.as_bytes(),
        );
        assert_eq!(answer.status, status, "{beacon:?}");
    }
}

#[test]
fn a_batch_with_bad_events_is_stored_with_a_report() {
    let env = TestEnv::start();
    let mut events: Vec<Value> = (0..3).map(|n| event(&format!("good {n}"))).collect();
    events.insert(1, nameless());
    let answer = env.post("/batch/", batch_of(&events));
    assert_eq!(answer.status, 200);
    let json = answer.json();
    assert_eq!(json["status"], "Ok");
    assert_eq!(
        (&json["accepted"], &json["rejected_count"]),
        (&json!(3), &json!(1))
    );
    assert_eq!(json["rejected"][0]["index"], 1);
    assert_eq!(json["rejected"][0]["code"], "missing_event");
    assert_eq!(json["rejected"][0]["attr"], "batch[1].event");
    let rows = env.rows();
    assert_eq!(rows.names(), ["good 0", "good 1", "good 2"]);
    let rejected = &rows.rejected[0];
    assert_eq!(
        (rejected.index, rejected.code.as_str()),
        (1, "missing_event")
    );
    assert_eq!(
        Some(rejected.request_id.as_str()),
        answer.header("x-request-id")
    );
    assert_eq!(
        serde_json::from_str::<Value>(&rejected.raw).unwrap(),
        nameless()
    );
    assert_eq!(rejected.received_at, NOW);
}

#[test]
fn a_report_lists_100_rejections_and_counts_all() {
    let env = TestEnv::start();
    let mut events = vec![nameless(); 150];
    events.push(event("good"));
    let json = env.post("/batch/", batch_of(&events)).json();
    assert_eq!(json["rejected"].as_array().unwrap().len(), 100);
    assert_eq!(
        (&json["rejected_count"], &json["accepted"]),
        (&json!(150), &json!(1))
    );
    assert_eq!(env.rows().rejected.len(), 150);
}

#[test]
fn a_warning_is_reported_and_the_event_stored() {
    let env = TestEnv::start();
    let mut odd = event("odd");
    odd["distinct_id"] = "null".into();
    let answer = env.post("/batch/", batch_of(&[odd]));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["warnings"][0]["code"], "illegal_distinct_id");
    assert_eq!(answer.json()["warnings"][0]["index"], 0);
    assert_eq!(env.rows().names(), ["odd"]);
}

#[test]
fn with_every_event_invalid_the_answer_is_400_and_the_events_are_kept_as_rejected() {
    let env = TestEnv::start();
    let answer = env.post("/batch/", batch_of(&[nameless(), nameless()]));
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (400, "missing_event")
    );
    let json = answer.json();
    assert_eq!(json["type"], "validation_error");
    assert_eq!(json["attr"], "batch[0].event");
    assert_eq!(
        (&json["accepted"], &json["rejected_count"]),
        (&json!(0), &json!(2))
    );
    assert_eq!(json["rejected"].as_array().unwrap().len(), 2);
    let rows = env.rows();
    assert_eq!((rows.events.len(), rows.rejected.len()), (0, 2));
}

#[test]
fn strict_stores_nothing_when_anything_is_invalid() {
    let env = TestEnv::start();
    let answer = env.post(
        "/batch/?strict=true",
        batch_of(&[event("good"), nameless()]),
    );
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (400, "missing_event")
    );
    assert_eq!(answer.json()["rejected"][0]["index"], 1);
    assert_eq!(
        env.post("/batch/?strict=true", batch(&["alone"])).status,
        200
    );
    let rows = env.rows();
    assert_eq!((rows.names(), rows.rejected.len()), (vec!["alone"], 0));
}

#[test]
fn a_dry_run_reports_everything_and_stores_nothing() {
    let env = TestEnv::start();
    let bodies = [
        (batch_of(&[event("good"), nameless()]), 1, 1),
        (batch_of(&[nameless()]), 0, 1),
        (batch(&["good"]), 1, 0),
    ];
    for query in ["?dry_run=true", "?dry_run=true&strict=true"] {
        for (body, accepted, rejected) in &bodies {
            let answer = env.post(&format!("/batch/{query}"), body);
            assert_eq!(answer.status, 200, "{body}");
            let json = answer.json();
            assert_eq!(json["accepted"], *accepted, "{body}");
            assert_eq!(json["rejected_count"], *rejected, "{body}");
            assert!(
                json["rejected"].is_array() && json["warnings"].is_array(),
                "{body}"
            );
        }
    }
    let rows = env.rows();
    assert_eq!((rows.events.len(), rows.rejected.len()), (0, 0));
}

#[test]
fn a_body_without_events_is_400() {
    let env = TestEnv::start();
    let table: [(&str, &str); 5] = [
        ("{\"api_key\":", "invalid_json"),
        ("hello", "invalid_json"),
        ("17", "invalid_body"),
        ("[]", "empty_batch"),
        (r#"{"api_key":"k","batch":[]}"#, "empty_batch"),
    ];
    for (body, code) in table {
        let answer = env.post("/batch/", body);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, code),
            "{body}"
        );
    }
}

#[test]
fn a_row_holds_what_was_sent_and_when() {
    let env = TestEnv::start();
    env.clock.set(Micros(NOW.0 + 7));
    let properties = r#"{"b":1.0,"a":[1e400,12345678901234567890123],"$ip":"9.9.9.9"}"#;
    let body = format!(
        r#"{{"api_key":"{KEY}","batch":[{{"event":" n ","uuid":"{}","distinct_id":17,"timestamp":"2026-11-20T14:00:00.5+01:00","properties":{properties}}}]}}"#,
        uuid::Uuid::from_u128(9)
    );
    assert_eq!(env.post("/batch/", body).status, 200);
    let row = env.rows().events.remove(0);
    assert_eq!(row.uuid, uuid::Uuid::from_u128(9));
    assert_eq!((row.event.as_str(), row.distinct_id.as_str()), ("n", "17"));
    assert_eq!(row.properties, properties);
    assert_eq!(row.timestamp, Micros(1_795_179_600_500_000));
    assert_eq!(
        (row.created_at, row.historical_migration),
        (NOW.plus_micros(7), false)
    );
}

#[test]
fn the_address_of_the_client_becomes_ip() {
    let env = TestEnv::with(|options| {
        options.server.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let mut client = env.client();
    let body = batch(&["e"]);
    client.post("/batch/", &[], body.as_bytes());
    client.post(
        "/batch/",
        &[("X-Forwarded-For", "6.6.6.6, 203.0.113.7")],
        body.as_bytes(),
    );
    let ips: Vec<Value> = env
        .rows()
        .events
        .iter()
        .map(|row| properties(row)["$ip"].clone())
        .collect();
    assert_eq!(ips, ["127.0.0.1", "203.0.113.7"]);
}

#[test]
fn an_untrusted_client_cannot_choose_its_address() {
    let env = TestEnv::start();
    let headers = [("X-Forwarded-For", "203.0.113.7")];
    env.client()
        .post("/batch/", &headers, batch(&["e"]).as_bytes());
    assert_eq!(properties(&env.rows().events[0])["$ip"], "127.0.0.1");
}

#[test]
fn rows_of_a_historical_batch_are_marked() {
    let env = TestEnv::start();
    let body = json!({"api_key": KEY, "historical_migration": true, "batch": [event("old")]});
    assert_eq!(env.post("/batch/", body.to_string()).status, 200);
    let query = env.post("/batch/?historical_migration=true", batch(&["by query"]));
    assert_eq!(query.status, 200);
    let rows = env.rows();
    assert_eq!(rows.names(), ["old", "by query"]);
    assert!(rows.events.iter().all(|row| row.historical_migration));
}
