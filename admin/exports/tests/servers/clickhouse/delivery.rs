//! Rows arrive once, whatever is repeated or cut off.

use super::fixture::{Fixture, cutting_after};
use crate::rows::{delivered, lines, person, row, run, run_of_persons, written};
use millrace_catalog::ExportModel;
use millrace_exports::ExportErrorKind;
use millrace_exports::destination::Destination as _;
use serde_json::json;
use std::sync::atomic::Ordering;

const COUNT: &str = "SELECT count(), uniqExact(uuid) FROM {db}.events";

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_with_their_values_and_a_repeated_window_adds_nothing() {
    let fixture = Fixture::new("destination_values").await;
    let destination = fixture.opened().unwrap();
    let rows = lines((1..=300).map(row));
    for _ in 0..3 {
        let done = delivered(&destination, &run(0), &rows).await.unwrap();
        assert_eq!(done.rows, Some(300));
        assert_eq!(fixture.execute(COUNT).await, "300\t300");
    }
    let values = "SELECT event, distinct_id, team_id, ip, `set`, set_once, timestamp, \
                  JSONExtractString(properties, 'text') = 'it\\'s \"quoted\"\\t\\\\ and\\nbroken' \
                  FROM {db}.events WHERE uuid = '00000000-0000-0000-0000-000000000007'";
    assert_eq!(
        fixture.execute(values).await,
        "page viewed\tuser 7\t3\t8.8.8.8\t{\"plan\":\"free\"}\t\t2026-11-20 14:00:00.000001\t1"
    );
    assert_eq!(fixture.tables().await, "events", "no staging table stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_was_sent_again_with_other_values_replaces_the_earlier_one() {
    let fixture = Fixture::new("destination_upserts").await;
    let destination = fixture.opened().unwrap();
    delivered(&destination, &run(0), &lines([row(1), row(2)]))
        .await
        .unwrap();
    let mut changed = row(1);
    changed["ip"] = json!("9.9.9.9");
    delivered(&destination, &run(1), &lines([changed, row(2)]))
        .await
        .unwrap();
    let now = "SELECT uuid, ip FROM {db}.events FINAL ORDER BY uuid";
    assert_eq!(
        fixture.execute(now).await,
        "00000000-0000-0000-0000-000000000001\t9.9.9.9\n\
         00000000-0000-0000-0000-000000000002\t8.8.8.8"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_version_of_a_person_stays_whatever_arrives_later() {
    let mut fixture = Fixture::new("destination_persons").await;
    fixture.model = ExportModel::Persons;
    fixture.table = Some("people");
    let destination = fixture.opened().unwrap();
    let window = [
        person(1, (1, 5), &json!({ "plan": "old" })),
        person(1, (1, 9), &json!({ "plan": "paid" })),
        person(2, (1, 1), &json!({})),
    ];
    let later = [person(1, (2, 3), &json!({ "plan": "merged" }))];
    for (hour, rows) in [
        (0, lines(window.clone())),
        (1, lines(later)),
        (0, lines(window)),
    ] {
        let done = delivered(&destination, &run_of_persons(hour), &rows).await;
        assert_eq!(done.unwrap().rows, Some(rows.lines().count() as u64));
    }
    let now = "SELECT distinct_id, JSONExtractString(properties, 'plan'), person_version \
               FROM {db}.people FINAL ORDER BY distinct_id";
    assert_eq!(fixture.execute(now).await, "user 1\tmerged\t3\nuser 2\t\t1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_to_an_insert_or_to_the_last_statement_stores_nothing_twice() {
    for (name, text) in [
        ("destination_cut_insert", "INSERT+INTO"),
        ("destination_cut_publish", "-publish"),
    ] {
        let mut fixture = Fixture::new(name).await;
        let (url, has_cut) = cutting_after(text).await;
        fixture.url = url;
        let destination = fixture.opened().unwrap();
        let rows = lines((1..=500).map(row));
        let done = delivered(&destination, &run(0), &rows).await.unwrap();
        assert!(has_cut.load(Ordering::Relaxed), "{text}");
        assert_eq!(done.rows, Some(500), "{text}");
        assert_eq!(fixture.execute(COUNT).await, "500\t500", "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_that_was_abandoned_inserts_nothing_beside_the_next_one() {
    let fixture = Fixture::new("destination_tries").await;
    let destination = fixture.opened().unwrap();
    let rows = lines((1..=20).map(row));
    let abandoned = written(&destination, &run(0), &rows).await.unwrap();
    delivered(&destination, &run(0), &rows).await.unwrap();
    // Its staging table is gone.
    let error = abandoned.publish().await.unwrap_err();
    assert_eq!(error.kind, ExportErrorKind::Retryable, "{error}");
    assert_eq!(fixture.execute(COUNT).await, "20\t20");
    let aborted = written(&destination, &run(1), &rows).await.unwrap();
    aborted.abort().await;
    assert_eq!(fixture.tables().await, "events");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_other_columns_is_refused_before_rows_are_sent() {
    let fixture = Fixture::new("destination_columns").await;
    fixture
        .execute("CREATE TABLE {db}.events (uuid UUID) ENGINE = MergeTree ORDER BY uuid")
        .await;
    let destination = fixture.opened().unwrap();
    let Err(error) = destination.begin(&run(0), 1).await else {
        panic!("the table has no column event");
    };
    assert_eq!(error.kind, ExportErrorKind::Permanent);
    assert!(error.message.contains("no column event"), "{error}");
}
