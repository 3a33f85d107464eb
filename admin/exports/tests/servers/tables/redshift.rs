//! Tests of the parts of Redshift that can be tried on PostgreSQL: all but its own types and
//! functions, for which there are stand-ins of the same names.

use super::fixture::Fixture;
use crate::rows::{delivered, lines, row, run};
use serde_json::{Value, json};

#[tokio::test]
async fn rows_are_stored_as_texts_or_as_super() {
    for (kind, expected) in [("varchar", "character varying"), ("super", "jsonb")] {
        let mut fixture = Fixture::new().await;
        fixture.set("properties_data_type", kind);
        let redshift = fixture.redshift().await;
        for _ in 0..2 {
            let outcome = delivered(&redshift, &run(0), &lines([row(1), row(2)]))
                .await
                .unwrap();
            assert_eq!((outcome.rows, outcome.rows_changed), (Some(2), 0));
        }
        let of =
            "SELECT data_type FROM information_schema.columns WHERE column_name = 'properties'";
        assert_eq!(fixture.texts(of).await[..1], [expected]);
        let stored = fixture
            .texts("SELECT properties::text FROM events ORDER BY uuid")
            .await;
        let stored: Vec<Value> = stored
            .iter()
            .map(|text| serde_json::from_str(text).unwrap())
            .collect();
        assert_eq!(
            stored,
            [row(1)["properties"].clone(), row(2)["properties"].clone()]
        );
        let others = "SELECT concat_ws(' ', distinct_id, team_id, timestamp AT TIME ZONE 'UTC', elements IS NULL) \
             FROM events ORDER BY uuid";
        assert_eq!(
            fixture.texts(others).await[0],
            "user 1 3 2026-11-20 14:00:00.000001 t"
        );
        assert_eq!(
            fixture
                .texts("SELECT rows::text FROM events_millrace_runs")
                .await,
            ["2"]
        );
    }
}

#[tokio::test]
async fn a_duplicate_uuid_is_stored_once_with_its_newest_row() {
    let fixture = Fixture::new().await;
    let mut newer = row(1);
    newer["timestamp"] = json!("2026-11-20T15:00:00.000000Z");
    newer["event"] = json!("newer");
    let lines = lines([newer, row(1), row(2)]);
    delivered(&fixture.redshift().await, &run(0), &lines)
        .await
        .unwrap();
    let names = "SELECT event FROM events ORDER BY uuid";
    assert_eq!(fixture.texts(names).await, ["newer", "page viewed"]);
}

#[tokio::test]
async fn json_longer_than_a_varchar_does_not_block_the_window() {
    let fixture = Fixture::new().await;
    let mut long = row(1);
    long["properties"] = json!({"text": "x".repeat(70_000)});
    let bytes = long["properties"].to_string().len();
    let outcome = delivered(&fixture.redshift().await, &run(0), &lines([long, row(2)]))
        .await
        .unwrap();
    assert_eq!(outcome.rows_changed, 1);
    let stored = fixture
        .texts("SELECT properties FROM events ORDER BY uuid")
        .await;
    assert_eq!(stored[0], format!(r#"{{"$oversize_bytes":{bytes}}}"#));
}

#[tokio::test]
async fn many_rows_are_inserted_by_several_statements() {
    let fixture = Fixture::new().await;
    let lines = lines((0..4_500).map(row));
    let outcome = delivered(&fixture.redshift().await, &run(0), &lines)
        .await
        .unwrap();
    assert_eq!(outcome.rows, Some(4_500));
    assert_eq!(fixture.text("SELECT count(*) FROM events").await, "4500");
}
