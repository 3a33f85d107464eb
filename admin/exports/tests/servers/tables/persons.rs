//! Tests of persons in tables: a row for each distinct id, updated by its key.

use super::fixture::{Fixture, refusal};
use crate::rows::{delivered, lines, person, row, run, run_of_persons};
use millrace_catalog::ExportModel;
use millrace_exports::ExportErrorKind;
use serde_json::{Value, json};

/// Table that a customer may have created, without a unique index.
const OWN: &str = "CREATE TABLE persons (id serial, team_id bigint, distinct_id text, \
     person_id text, properties jsonb, person_distinct_id_version numeric, person_version bigint, \
     created_at timestamptz)";
/// Table that a customer may have created, with a key and another type.
const UNIQUE: &str = "CREATE TABLE persons (person_id uuid, team_id integer, distinct_id text, \
     properties json, person_distinct_id_version bigint, person_version bigint, \
     created_at timestamp, note text, UNIQUE (distinct_id, team_id) INCLUDE (note))";

async fn fixture() -> Fixture {
    let mut fixture = Fixture::new().await;
    fixture.model = ExportModel::Persons;
    fixture.set("table_name", "persons");
    fixture
}

/// Stored ids with their persons.
async fn kept(fixture: &Fixture) -> Vec<String> {
    let sql = "SELECT concat_ws(' ', distinct_id, right(person_id::text, 1), properties, \
         person_distinct_id_version, person_version) FROM persons ORDER BY distinct_id";
    fixture.texts(sql).await
}

#[tokio::test]
async fn a_table_of_persons_is_created_with_a_key_of_project_and_distinct_id() {
    let fixture = fixture().await;
    let person = person(1, (5, 1_795_189_098_000_000), &json!({"a": "it's\t\\"}));
    let (postgres, lines) = (fixture.postgres(), lines([person.clone()]));
    let outcome = delivered(&postgres, &run_of_persons(0), &lines).await;
    assert_eq!(outcome.unwrap().rows, Some(1));
    let columns = "SELECT column_name || ' ' || data_type FROM information_schema.columns \
         WHERE table_name = 'persons' ORDER BY ordinal_position";
    let expected = [
        "team_id integer",
        "distinct_id character varying",
        "person_id character varying",
        "properties jsonb",
        "person_distinct_id_version bigint",
        "person_version bigint",
        "created_at timestamp with time zone",
    ];
    assert_eq!(fixture.texts(columns).await, expected);
    let stored = fixture.text("SELECT to_jsonb(p) FROM persons p").await;
    let mut stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["created_at"], "2026-11-20T14:00:00.000001+00:00");
    stored["created_at"] = person["created_at"].clone();
    assert_eq!(stored, person);
}

#[tokio::test]
async fn an_unnamed_table_is_named_after_its_model() {
    let table = [
        (ExportModel::Events, lines([row(1)]), "events"),
        (
            ExportModel::Persons,
            lines([person(1, (1, 1), &json!({}))]),
            "persons",
        ),
    ];
    let mut fixture = Fixture::new().await;
    for (model, lines, name) in table {
        fixture.model = model;
        let run = if model == ExportModel::Persons {
            run_of_persons(0)
        } else {
            run(0)
        };
        for destination in fixture.all().await {
            delivered(&*destination, &run, &lines).await.unwrap();
            let sql = format!("SELECT count(*)::text FROM {name}");
            assert_eq!(fixture.text(&sql).await, "1", "{name}");
            fixture.execute(&format!("DROP TABLE {name}")).await;
        }
    }
}

#[tokio::test]
async fn changed_persons_replace_stored_ones_and_older_ones_do_not() {
    // Redshift keeps nothing unique, and has no type of uuids.
    for (table, servers) in [
        ("SELECT 1", &[false, true][..]),
        (OWN, &[false, true]),
        (UNIQUE, &[false]),
    ] {
        for &is_redshift in servers {
            let fixture = fixture().await;
            fixture.execute(table).await;
            let destination = match is_redshift {
                false => fixture.postgres(),
                true => fixture.redshift().await,
            };
            let n = |n: u64| json!({ "n": n });
            let mut moved = person(2, (9, 9), &n(4));
            moved["person_id"] = person(1, (0, 0), &n(0))["person_id"].clone();
            let steps = [
                (
                    vec![person(1, (5, 5), &n(1)), person(2, (5, 5), &n(2))],
                    ["user 1 1 {\"n\": 1} 5 5", "user 2 2 {\"n\": 2} 5 5"],
                ),
                // One person changes, and the other's id moves to another person.
                (
                    vec![person(1, (5, 7), &n(3)), moved.clone()],
                    ["user 1 1 {\"n\": 3} 5 7", "user 2 1 {\"n\": 4} 9 9"],
                ),
                // A slow run with older rows.
                (
                    vec![person(1, (5, 6), &n(8)), person(2, (5, 20), &n(8))],
                    ["user 1 1 {\"n\": 3} 5 7", "user 2 1 {\"n\": 4} 9 9"],
                ),
                // The same rows again.
                (
                    vec![person(1, (5, 7), &n(3)), moved],
                    ["user 1 1 {\"n\": 3} 5 7", "user 2 1 {\"n\": 4} 9 9"],
                ),
            ];
            for (hour, (rows, expected)) in (0..).zip(steps) {
                let count = rows.len() as u64;
                let outcome = delivered(&destination, &run_of_persons(hour), &lines(rows)).await;
                assert_eq!(outcome.unwrap().rows, Some(count), "{table} {is_redshift}");
                let kept = kept(&fixture).await;
                let kept: Vec<_> = kept.iter().map(|it| it.replace(":", ": ")).collect();
                let kept: Vec<_> = kept.iter().map(|it| it.replace(":  ", ": ")).collect();
                assert_eq!(kept, expected, "{table} {is_redshift} {hour}");
            }
        }
    }
}

#[tokio::test]
async fn events_and_persons_are_refused_by_each_others_tables() {
    let mut fixture = fixture().await;
    let persons = lines([person(1, (5, 5), &json!({}))]);
    delivered(&fixture.postgres(), &run_of_persons(0), &persons)
        .await
        .unwrap();
    fixture.model = ExportModel::Events;
    let error = refusal(delivered(&fixture.postgres(), &run(0), &lines([row(1)])).await);
    assert_eq!(error.kind, ExportErrorKind::Permanent);
    assert!(
        error.message.contains("other columns than events"),
        "{error}"
    );
    fixture.set("table_name", "events");
    delivered(&fixture.postgres(), &run(0), &lines([row(1)]))
        .await
        .unwrap();
    fixture.model = ExportModel::Persons;
    let error = refusal(delivered(&fixture.postgres(), &run_of_persons(0), &persons).await);
    assert!(
        error.message.contains("other columns than persons"),
        "{error}"
    );
}
