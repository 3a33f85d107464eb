//! Tests of tables that customers created.

use super::fixture::{Fixture, refusal};
use crate::rows::{delivered, lines, row, run};
use millrace_exports::ExportErrorKind;

const EVENTS: &str = "uuid text, event text, properties jsonb, elements jsonb, set jsonb, \
     set_once jsonb, distinct_id text, team_id integer, ip text, site_url text, timestamp timestamptz";

#[tokio::test]
async fn a_table_of_another_schema_is_refused_with_the_reason() {
    let table = [
        (
            "id integer".to_owned(),
            "it has no uuid, event, properties,",
        ),
        (EVENTS.replace(", ip text", ""), "it has no ip."),
        (
            EVENTS.replace("event text", "event integer"),
            "its column event is of the type integer",
        ),
        (
            EVENTS.replace("properties jsonb", "properties bytea"),
            "its column properties is of the type bytea",
        ),
        (
            EVENTS.replace("timestamptz", "date"),
            "its column timestamp is of the type date",
        ),
        (
            EVENTS.replace("team_id integer", "team_id text"),
            "its column team_id is of the type text",
        ),
        (
            format!("{EVENTS}, own integer NOT NULL"),
            "a column own that must have a value",
        ),
    ];
    for (columns, sentence) in table {
        let fixture = Fixture::new().await;
        fixture
            .execute(&format!("CREATE TABLE events ({columns})"))
            .await;
        for destination in fixture.all().await {
            let error = refusal(delivered(&*destination, &run(0), &lines([row(1)])).await);
            assert_eq!(error.kind, ExportErrorKind::Permanent, "{columns}");
            assert!(error.message.contains(sentence), "{columns}: {error}");
        }
        assert_eq!(fixture.text("SELECT count(*) FROM events").await, "0");
    }
}

#[tokio::test]
async fn additional_columns_of_customers_are_untouched() {
    let fixture = Fixture::new().await;
    let own = "id bigint GENERATED ALWAYS AS IDENTITY, note text, \
         made timestamptz NOT NULL DEFAULT now(), \
         double integer GENERATED ALWAYS AS (team_id * 2) STORED";
    fixture
        .execute(&format!("CREATE TABLE events ({EVENTS}, {own})"))
        .await;
    delivered(&fixture.postgres(), &run(0), &lines([row(1), row(2)]))
        .await
        .unwrap();
    let sums = "SELECT sum(double) || ' ' || count(made) || ' ' || count(note) FROM events";
    assert_eq!(fixture.text(sums).await, "12 2 0");
}

#[tokio::test]
async fn indexes_that_are_not_unique_by_key_are_not_used() {
    let indexes = [
        "CREATE INDEX ON events (uuid)",
        "CREATE UNIQUE INDEX ON events (uuid, event)",
        "CREATE UNIQUE INDEX ON events (uuid) WHERE team_id = 9",
        "CREATE UNIQUE INDEX ON events (lower(uuid))",
        "ALTER TABLE events ADD UNIQUE (uuid) DEFERRABLE INITIALLY DEFERRED",
    ];
    for index in indexes {
        let fixture = Fixture::new().await;
        fixture
            .execute(&format!("CREATE TABLE events ({EVENTS}); {index}"))
            .await;
        for _ in 0..2 {
            let lines = lines((0..20).map(row));
            delivered(&fixture.postgres(), &run(0), &lines)
                .await
                .unwrap();
        }
        assert_eq!(
            fixture.text("SELECT count(*) FROM events").await,
            "20",
            "{index}"
        );
    }
}
