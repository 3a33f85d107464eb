//! Persons and groups in the real binary: from requests to views, by the leader.

use crate::admin_failover::{Admins, LeaderTask, SharedCatalog};
use crate::server::{Server, eventually, post};
use serde_json::json;
use tempfile::TempDir;

#[test]
fn person_updates_of_events_reach_the_views() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.capture(&json!([
        {"event": "seen", "distinct_id": "anonymous-1", "properties": {"$groups": {"company": "acme"}}},
        {"event": "bought", "distinct_id": "ann", "timestamp": "2026-02-01T00:00:00Z",
         "properties": {"$set": {"plan": "large", "seats": 3}}},
        {"event": "$identify", "distinct_id": "ann", "timestamp": "2026-01-01T00:00:00Z",
         "properties": {"$anon_distinct_id": "anonymous-1", "$set": {"plan": "small", "since": 2020}}},
        {"event": "$group_identify", "distinct_id": "ann",
         "properties": {"$group_type": "company", "$group_key": "acme", "$group_set": {"city": "Bern"}}},
        {"event": "nobody's", "distinct_id": "undefined", "properties": {"$set": {"a": 1}}},
    ]));
    server.wait_for(
        "SELECT event, person_id = (SELECT person_id FROM millrace.person_distinct_ids FINAL \
         WHERE distinct_id = 'ann'), person_properties FROM millrace.events_with_persons \
         WHERE event IN ('seen', 'bought') ORDER BY event",
        "bought\t1\t{\"plan\":\"large\",\"seats\":3,\"since\":2020}\n\
         seen\t1\t{\"plan\":\"large\",\"seats\":3,\"since\":2020}",
    );
    server.wait_for(
        "SELECT count(), sum(is_identified) FROM millrace.persons_current",
        "1\t1",
    );
    server.wait_for(
        "SELECT event, g.properties FROM millrace.events_with_persons AS e \
         JOIN (SELECT * FROM millrace.groups FINAL) AS g ON g.team_id = e.team_id \
         AND g.group_key = JSONExtractString(e.groups, 'company') WHERE g.group_type = 'company'",
        "seen\t{\"city\":\"Bern\"}",
    );
}

#[test]
fn values_that_clickhouse_cannot_read_hide_no_other_property_of_a_person() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.capture(&json!([
        {"event": "e", "distinct_id": "ann", "properties": {"$set": {"plan": "large"}}},
    ]));
    // No writer of JSON that keeps to the rules writes these.
    let event = r#"{"token":"KEY","event":"e","distinct_id":"ann","properties":{"$set":
        {"whole":18446744073709551616,"endless":1e999,"cut":"\ud83d","deep":[{"a":-1e999}]}}}"#;
    let event = event.replace("KEY", &server.credential("project_api_key"));
    let url = format!("{}/i/v0/e/", server.credential("ingest_url"));
    let (status, answer) = post(&url, &event);
    assert_eq!(status, 200, "{answer}");
    server.wait_for(
        "SELECT isValidJSON(properties), JSONExtractString(properties, 'plan'), \
         JSONExtractFloat(properties, 'whole'), JSONExtractRaw(properties, 'endless'), \
         JSONExtractString(properties, 'cut'), JSONExtractRaw(properties, 'deep') \
         FROM millrace.persons_current",
        "1\tlarge\t18446744073709552000\tnull\t\u{fffd}\t[{\"a\":null}]",
    );
}

/// Key of processes that share a catalog.
const SECRET_KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const ROUNDS: usize = 3;
const PERSONS: usize = 500;

fn send_updates(server: &Server, round: usize) {
    for chunk in 0..PERSONS / 50 {
        let events: Vec<_> = (chunk * 50..chunk * 50 + 50)
            .map(|person| {
                json!({
                    "event": "told", "distinct_id": format!("person {person}"),
                    "properties": {"$set": {format!("round{round}"): person, "last": round}},
                })
            })
            .collect();
        server.capture(&json!(events));
    }
}

#[test]
fn another_process_takes_over_when_the_leader_is_killed() {
    let catalog = SharedCatalog::new();
    let shared = ["--database-url", catalog.url(), "--secret-key", SECRET_KEY];
    let home = TempDir::new().unwrap();
    let server = Server::start_mode("ingest", home.path(), &shared);
    let clickhouse = server.clickhouse_args();
    let clickhouse = clickhouse.iter().map(String::as_str);
    let args: Vec<&str> = shared.into_iter().chain(clickhouse).collect();
    let mut admins = Admins::start(&catalog, ROUNDS + 1, &args);
    for round in 0..ROUNDS {
        send_updates(&server, round);
        // In the middle of a round.
        eventually("some of the round", || {
            let sql = format!(
                "SELECT count() FROM millrace.persons WHERE position(properties, 'round{round}') > 0"
            );
            (server.query(&sql).trim() != "0").then_some(())
        });
        admins.kill_leader(LeaderTask::Persons);
    }
    server.wait_for(
        "SELECT count(), countIf(properties = concat('{\"last\":2,\"round0\":', n, ',\"round1\":', n, \
         ',\"round2\":', n, '}')) FROM (SELECT properties, JSONExtractRaw(properties, 'round0') AS n \
         FROM millrace.persons_current)",
        &format!("{PERSONS}\t{PERSONS}"),
    );
    server.wait_for(
        "SELECT uniqExact(person_id), countIf(NOT is_identified) FROM millrace.events_with_persons",
        &format!("{PERSONS}\t{}", PERSONS * ROUNDS),
    );
}
