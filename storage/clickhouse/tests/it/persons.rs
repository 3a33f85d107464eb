//! Persons and groups beside events.

use crate::fixture::Database;
use bytes::Bytes;
use millrace_clickhouse::PersonTable;
use millrace_rows::rowbinary::{put_bool, put_bytes, put_i64, put_uuid};
use millrace_rows::{Month, ProjectId, person_id};
use uuid::Uuid;

fn person(id: Uuid, properties: &str, is_deleted: bool, version: i64) -> Vec<u8> {
    let mut row = Vec::new();
    put_i64(&mut row, 1);
    put_uuid(&mut row, id);
    put_i64(&mut row, 5);
    put_bytes(&mut row, properties.as_bytes());
    put_bool(&mut row, true);
    put_bool(&mut row, is_deleted);
    put_i64(&mut row, version);
    row
}

/// RowBinary of a distinct id of the project 1.
pub fn distinct_id(distinct_id: &str, person: Uuid, version: i64) -> Vec<u8> {
    let mut row = Vec::new();
    put_i64(&mut row, 1);
    put_bytes(&mut row, distinct_id.as_bytes());
    put_uuid(&mut row, person);
    put_i64(&mut row, version);
    row
}

async fn copy(database: &Database, table: PersonTable, rows: Vec<u8>) {
    let copied = database.clickhouse.copy_persons(table, Bytes::from(rows));
    copied.await.unwrap();
}

#[tokio::test]
async fn events_are_joined_with_the_current_persons_of_their_ids() {
    let database = Database::make("persons_of_events").await;
    let names = ["a", "b", "nobody", "\u{1f600} 'quoted' \\"];
    for name in names {
        let name = name.replace('\\', "\\\\").replace('\'', "\\'");
        database
            .execute(&format!(
                "INSERT INTO persons_of_events.events SELECT generateUUIDv4(), 'e', \
                 '{{\"$groups\":{{\"company\":\"c\"}}}}', now64(6), 1, '{name}', now64(6), false"
            ))
            .await;
    }
    let of = |name: &str| person_id(ProjectId(1), name);
    let (a, b) = (of("a"), of("b"));
    let both = [
        person(a, "{\"n\":1}", false, 1),
        person(b, "{\"n\":2}", false, 1),
    ];
    copy(&database, PersonTable::Persons, both.concat()).await;
    let ids = [distinct_id("a", a, 1), distinct_id("b", b, 1)];
    copy(&database, PersonTable::DistinctIds, ids.concat()).await;
    // The second person is merged into the first; late copies change nothing.
    let merged = [person(a, "{\"n\":3}", false, 2), person(b, "{}", true, 2)];
    copy(&database, PersonTable::Persons, merged.concat()).await;
    copy(&database, PersonTable::DistinctIds, distinct_id("b", a, 2)).await;
    copy(&database, PersonTable::Persons, both.concat()).await;
    copy(&database, PersonTable::DistinctIds, distinct_id("b", b, 1)).await;
    for (name, id, properties) in [
        ("a", a, "{\"n\":3}"),
        ("b", a, "{\"n\":3}"),
        ("nobody", of("nobody"), "{}"),
        (names[3], of(names[3]), "{}"),
    ] {
        let name = name.replace('\\', "\\\\").replace('\'', "\\'");
        let found = database
            .number(&format!(
                "SELECT count() FROM {{db}}.events_with_persons WHERE team_id = 1 \
                 AND distinct_id = '{name}' AND person_id = '{id}' \
                 AND person_properties = '{properties}' \
                 AND JSONExtractString(groups, 'company') = 'c'"
            ))
            .await;
        assert_eq!(found, 1, "{name}");
    }
    let current = "SELECT count() FROM {db}.persons_current WHERE team_id = 1";
    assert_eq!(database.number(current).await, 1);
}

#[tokio::test]
async fn persons_and_groups_of_deleted_projects_are_deleted_with_their_events() {
    let database = Database::make("persons_purged").await;
    let id = person_id(ProjectId(1), "a");
    copy(&database, PersonTable::Persons, person(id, "{}", false, 1)).await;
    copy(&database, PersonTable::DistinctIds, distinct_id("a", id, 1)).await;
    let projects = database.clickhouse.projects_with_rows().await.unwrap();
    assert_eq!(
        (projects.len(), projects[0].team_id, projects[0].rows),
        (1, 1, 2)
    );
    database
        .clickhouse
        .delete_projects(&[ProjectId(1)])
        .await
        .unwrap();
    while database.clickhouse.deletion().await.unwrap().unfinished > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(database.clickhouse.projects_with_rows().await.unwrap(), []);
}

#[tokio::test]
async fn old_person_updates_are_dropped_by_months_and_nothing_else() {
    let database = Database::make("persons_forgotten").await;
    for month in ["2025-11", "2025-12", "2026-01"] {
        database
            .execute(&format!(
                "INSERT INTO persons_forgotten.person_updates (team_id, created_at, request_id) \
                 SELECT 1, toDateTime64('{month}-15 00:00:00', 6, 'UTC'), toString(number) \
                 FROM numbers(100)"
            ))
            .await;
        database
            .execute(&format!(
                "INSERT INTO persons_forgotten.events (team_id, timestamp) \
                 SELECT 1, toDateTime64('{month}-15 00:00:00', 6, 'UTC')"
            ))
            .await;
    }
    let clickhouse = &database.clickhouse;
    for (before, expected) in [
        (202_511, &[][..]),
        (202_601, &[Month(202_511), Month(202_512)]),
        (202_601, &[]),
    ] {
        let forgotten = clickhouse.drop_person_updates(Month(before)).await;
        assert_eq!(forgotten.unwrap(), expected, "{before}");
    }
    let left = "SELECT count() FROM {db}.person_updates";
    assert_eq!(database.number(left).await, 100);
    assert_eq!(database.events().await, 3);
}
