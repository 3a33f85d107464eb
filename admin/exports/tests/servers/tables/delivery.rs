//! Tests of rows delivered to PostgreSQL.

use super::fixture::Fixture;
use crate::rows::{delivered, lines, row, run};
use millrace_exports::destination::Destination;
use millrace_exports::rows::RowForm;
use serde_json::{Value, json};

#[tokio::test]
async fn a_table_is_created_as_documented_and_filled() {
    let mut fixture = Fixture::new().await;
    fixture.execute(r#"CREATE SCHEMA "own ""schema""""#).await;
    fixture.set("schema", "own \"schema\"");
    fixture.set("table_name", "Millrace's \"events\"");
    let postgres = fixture.postgres();
    assert_eq!(postgres.form(), RowForm::TableJsonLines);
    let lines = lines([row(1), row(2)]);
    let outcome = delivered(&postgres, &run(0), &lines).await.unwrap();
    assert_eq!((outcome.rows, outcome.rows_changed), (Some(2), 0));
    let columns = "SELECT column_name || ' ' || data_type || coalesce(character_maximum_length::text, '') \
         FROM information_schema.columns WHERE table_name = 'Millrace''s \"events\"' ORDER BY ordinal_position";
    let expected = [
        "uuid character varying200",
        "event character varying200",
        "properties jsonb",
        "elements jsonb",
        "set jsonb",
        "set_once jsonb",
        "distinct_id character varying200",
        "team_id integer",
        "ip character varying200",
        "site_url character varying200",
        "timestamp timestamp with time zone",
    ];
    assert_eq!(fixture.texts(columns).await, expected);
    let select =
        r#"SELECT to_jsonb(e) FROM "own ""schema"""."Millrace's ""events""" e ORDER BY uuid"#;
    let stored = fixture.texts(select).await;
    for (stored, expected) in stored.iter().zip([row(1), row(2)]) {
        let mut stored: Value = serde_json::from_str(stored).unwrap();
        assert_eq!(stored["timestamp"], "2026-11-20T14:00:00.000001+00:00");
        stored["timestamp"] = expected["timestamp"].clone();
        assert_eq!(stored, expected);
    }
}

#[tokio::test]
async fn a_window_exported_again_has_the_same_rows() {
    let tables = [
        "SELECT 1",
        // As customers create them: without a unique index, or with a uuid of its own type.
        "CREATE TABLE events (uuid text, event text, properties json, elements jsonb, set jsonb, \
         set_once jsonb, distinct_id text, team_id bigint, ip inet, site_url text, \
         timestamp timestamptz, own integer DEFAULT 5, id serial)",
        "CREATE TABLE events (uuid uuid UNIQUE, event text, properties json, elements text, \
         set jsonb, set_once jsonb, distinct_id text, team_id numeric, ip text, site_url text, \
         timestamp timestamp)",
    ];
    for table in tables {
        let fixture = Fixture::new().await;
        fixture.execute(table).await;
        let postgres = fixture.postgres();
        let lines = lines((0..50).map(row));
        for _ in 0..3 {
            let outcome = delivered(&postgres, &run(0), &lines).await.unwrap();
            assert_eq!(outcome.rows, Some(50), "{table}");
        }
        let counts = "SELECT count(*) || ' ' || count(DISTINCT uuid) FROM events";
        assert_eq!(fixture.text(counts).await, "50 50", "{table}");
        let runs = "SELECT run || ' ' || rows FROM events_millrace_runs";
        let expected = "00000000-0000-0000-0000-000000000007/arrival/2026-11-20T00:00:00Z/2026-11-20T01:00:00Z 50";
        assert_eq!(fixture.texts(runs).await, [expected], "{table}");
    }
}

#[tokio::test]
async fn changed_rows_are_updated_and_others_are_untouched() {
    let fixture = Fixture::new().await;
    let postgres = fixture.postgres();
    delivered(&postgres, &run(0), &lines([row(1), row(2)]))
        .await
        .unwrap();
    let versions = "SELECT xmin::text FROM events ORDER BY uuid";
    let before = fixture.texts(versions).await;
    let mut other = row(2);
    other["event"] = json!("renamed");
    delivered(&postgres, &run(1), &lines([row(1), other, row(3)]))
        .await
        .unwrap();
    let names = "SELECT event FROM events ORDER BY uuid";
    assert_eq!(
        fixture.texts(names).await,
        ["page viewed", "renamed", "page viewed"]
    );
    let after = fixture.texts(versions).await;
    assert_eq!(before[0], after[0]);
    assert_ne!(before[1], after[1]);
}

#[tokio::test]
async fn a_duplicate_uuid_is_stored_once_with_its_last_row() {
    let mut last = row(1);
    last["event"] = json!("last");
    for table in [
        "SELECT 1",
        "CREATE TABLE events (uuid text, event text, properties jsonb, \
         elements jsonb, set jsonb, set_once jsonb, distinct_id text, team_id integer, ip text, \
         site_url text, timestamp timestamptz)",
    ] {
        let fixture = Fixture::new().await;
        fixture.execute(table).await;
        let lines = lines([row(1), row(2), last.clone()]);
        delivered(&fixture.postgres(), &run(0), &lines)
            .await
            .unwrap();
        let names = "SELECT event FROM events ORDER BY uuid";
        assert_eq!(fixture.texts(names).await, ["last", "page viewed"]);
    }
}

#[tokio::test]
async fn characters_that_postgres_cannot_store_are_replaced_and_counted() {
    let fixture = Fixture::new().await;
    let line = |number: u64, properties: &str, event: &str| {
        let mut line = row(number);
        line["properties"] = Value::Null;
        line["event"] = Value::Null;
        let line = line.to_string();
        let line = line.replace(
            "\"properties\":null",
            &format!("\"properties\":{properties}"),
        );
        line.replace("\"event\":null", &format!("\"event\":\"{event}\"")) + "\n"
    };
    let table = [
        (
            r#"{"a": "\\u0000 \\\\u0000"}"#,
            "e",
            r"\u0000 \\u0000",
            "e",
            0,
        ),
        (r#"{"a": "x\u0000y"}"#, "e", "x\u{fffd}y", "e", 1),
        (r#"{"a": "\\\u0000"}"#, "e", "\\\u{fffd}", "e", 1),
        (
            r#"{"a": "\ud800 \ud83d\ude00 \udc00"}"#,
            "e",
            "\u{fffd} 😀 \u{fffd}",
            "e",
            1,
        ),
        (r#"{"a": 1e99999}"#, "e", "1e99999", "e", 1),
        (r#"{"a": "ok"}"#, r"\u0000", "ok", "\u{fffd}", 1),
        (r#"{"a": "ok"}"#, r"\ud800", "ok", "\u{fffd}", 1),
    ];
    let postgres = fixture.postgres();
    let (mut all, mut changed_all) = (String::new(), 0);
    for (number, (properties, event, _, _, changed)) in table.iter().enumerate() {
        all += &line(number as u64, properties, event);
        changed_all += changed;
    }
    let broken = line(7, "{\"a\": \"BROKEN\"}", "e");
    let mut bytes = all.into_bytes();
    let (before, after) = broken.split_once("BROKEN").unwrap();
    bytes.extend([before.as_bytes(), b"\xff", after.as_bytes()].concat());
    let mut delivery = postgres.begin(&run(0), 1).await.unwrap();
    delivery.write(bytes.into()).await.unwrap();
    delivery.end_part(table.len() as u64 + 1).await.unwrap();
    let outcome = delivery.publish().await.unwrap();
    assert_eq!(outcome.rows_changed, changed_all + 1);
    let stored = fixture
        .texts("SELECT properties->>'a' FROM events ORDER BY uuid")
        .await;
    let events = fixture
        .texts("SELECT event FROM events ORDER BY uuid")
        .await;
    for (number, (properties, _, text, event, _)) in table.iter().enumerate() {
        assert_eq!(stored[number], *text, "{properties}");
        assert_eq!(events[number], *event, "{properties}");
    }
    assert_eq!(stored[7], "\u{fffd}");
}

#[tokio::test]
async fn too_long_names_are_truncated_and_counted() {
    let fixture = Fixture::new().await;
    let mut long = row(1);
    long["event"] = json!("é".repeat(300));
    let lines = lines([long, row(2)]);
    let outcome = delivered(&fixture.postgres(), &run(0), &lines)
        .await
        .unwrap();
    assert_eq!(outcome.rows_changed, 1);
    let event = fixture.text("SELECT event FROM events ORDER BY uuid").await;
    assert_eq!(event, "é".repeat(200));
}

#[tokio::test]
async fn concurrent_windows_into_one_table_do_not_conflict() {
    // With a unique index, and without one.
    for keys in ["SELECT 1", "ALTER TABLE events DROP CONSTRAINT events_pkey"] {
        let fixture = Fixture::new().await;
        let postgres = fixture.postgres();
        delivered(&postgres, &run(0), "").await.unwrap();
        fixture.execute(keys).await;
        // The same rows in opposite orders, in which upserts could deadlock.
        let forth = lines((0..500).map(row));
        let back = lines((0..500).rev().map(row));
        let (first, second) = (run(1), run(2));
        let (forth, back) = tokio::join!(
            delivered(&postgres, &first, &forth),
            delivered(&postgres, &second, &back),
        );
        assert_eq!(forth.unwrap().rows, Some(500));
        assert_eq!(back.unwrap().rows, Some(500));
        assert_eq!(fixture.text("SELECT count(*) FROM events").await, "500");
        let runs = "SELECT count(*) FROM events_millrace_runs";
        assert_eq!(fixture.text(runs).await, "3");
    }
}
