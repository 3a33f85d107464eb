//! Properties that may be worth a column, in events and in ClickHouse's log of statements.

use crate::fixture::Database;
use millrace_clickhouse::SampledProperty;
use millrace_rows::ProjectId;

#[tokio::test(flavor = "multi_thread")]
async fn properties_are_counted_by_the_kind_of_their_values() {
    let database = Database::make("sampled").await;
    let all = [
        (1, r#"{"plan":"large","n":1,"x":{"plan":1}}"#),
        (
            1,
            r#"{"plan":"small","n":-2.5,"at":"2026-11-29T10:00:00Z"}"#,
        ),
        (1, r#"{"plan":"small","n":true,"at":"later"}"#),
        (2, r#"{"plan":null}"#),
        (2, "not JSON"),
    ];
    for (project_id, properties) in all {
        let insert = format!(
            "INSERT INTO sampled.events (uuid, event, properties, timestamp, team_id, distinct_id) \
             SELECT generateUUIDv4(), 'e', '{properties}', now64(6), {project_id}, 'a'"
        );
        database.execute(&insert).await;
    }
    let property = |key: &str, counts: [u64; 8]| SampledProperty {
        key: key.to_owned(),
        events: counts[0],
        texts: counts[1],
        times: counts[2],
        numbers: counts[3],
        wholes: counts[4],
        flags: counts[5],
        variants: counts[6],
        bytes: counts[7],
    };
    let clickhouse = &database.clickhouse;
    let sampled = clickhouse.sample_properties(Some(ProjectId(1)), 7, 100);
    let expected = [
        property("n", [3, 0, 0, 2, 1, 1, 3, 4]),
        property("plan", [3, 3, 0, 0, 0, 0, 2, 7]),
        property("at", [2, 2, 1, 0, 0, 0, 2, 22]),
        property("x", [1, 0, 0, 0, 0, 0, 1, 10]),
    ];
    assert_eq!(sampled.await.unwrap(), expected);
    let sampled = clickhouse.sample_properties(None, 7, 100).await.unwrap();
    assert_eq!(sampled[0], property("plan", [4, 3, 0, 0, 0, 0, 3, 7]));
    let none = clickhouse.sample_properties(Some(ProjectId(3)), 7, 100);
    assert!(none.await.unwrap().is_empty());
}

/// The embedded engine keeps no log of statements; the statement that reads one is parsed.
#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_no_log_of_statements_none_is_told() {
    let database = Database::make("queried").await;
    let queried = database.clickhouse.queried_properties(7).await.unwrap();
    assert!(queried.is_none_or(|queried| queried.iter().all(|it| it.statements > 0)));
}
