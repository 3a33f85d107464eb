//! Property columns on the real engine: their values by default, the views of projects, and columns
//! that come and go.

use crate::fixture::Database;
use crate::project_queries::{all, login, statement, views};
use crate::shards::{client, settings_of};
use millrace_clickhouse::{ClickHouse, PastRows};
use millrace_embedded::PROJECT_DATABASE;
use millrace_embedded::testing::TestEngine;
use millrace_rows::{ProjectId, PropertyColumn, PropertyType};
use std::time::Duration;

/// Column of project 1, unless it is of all.
fn column(number: i64, path: &[&str], kind: PropertyType) -> PropertyColumn {
    PropertyColumn {
        number,
        team_id: Some(ProjectId(1)),
        path: path.iter().map(|key| (*key).to_owned()).collect(),
        kind,
        bytes_max: if kind.is_text() { 8 } else { 0 },
    }
}

/// Values of `property_1` as texts, of events with these properties in their order.
async fn values(database: &Database, project_id: i64, properties: &[&str]) -> Vec<String> {
    for (place, text) in properties.iter().enumerate() {
        let text = text.replace('\\', "\\\\").replace('\'', "\\'");
        let insert = format!(
            "INSERT INTO {{db}}.events (uuid, event, properties, timestamp, team_id, distinct_id) \
             SELECT generateUUIDv4(), 'e', '{text}', toDateTime64('2026-11-01', 6), {project_id}, \
             '{place:04}'"
        );
        let insert = insert.replace("{db}", &database.settings.database);
        database.execute(&insert).await;
    }
    let select = format!(
        "SELECT ifNull(toString(property_1), 'NULL') FROM {{db}}.events \
         WHERE team_id = {project_id} ORDER BY distinct_id"
    );
    database.texts(&select).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_fits_its_type_is_in_the_column_and_no_other() {
    use PropertyType::{Bool, DateTime64, Float64, Int64, LowCardinality, String as Text};
    let table: [(PropertyType, &[(&str, &str)]); 6] = [
        (Text, &TEXTS),
        (LowCardinality, &TEXTS),
        (
            Int64,
            &[
                ("7", "7"),
                ("-0", "0"),
                ("9223372036854775807", "9223372036854775807"),
                ("-9223372036854775808", "-9223372036854775808"),
                ("9223372036854775808", "NULL"),
                ("7.0", "NULL"),
                ("7e0", "NULL"),
                ("\"7\"", "NULL"),
                ("true", "NULL"),
                ("null", "NULL"),
            ],
        ),
        (
            Float64,
            &[
                ("7", "7"),
                ("-0.5", "-0.5"),
                ("1e3", "1000"),
                ("18446744073709551615", "18446744073709552000"),
                ("\"7\"", "NULL"),
                ("[1]", "NULL"),
            ],
        ),
        (
            Bool,
            &[
                ("true", "true"),
                ("false", "false"),
                ("1", "NULL"),
                ("\"true\"", "NULL"),
            ],
        ),
        (DateTime64, &TIMES),
    ];
    for (kind, cases) in table {
        let database = Database::make(&format!("columns_{}", kind.name().to_lowercase())).await;
        let columns = [column(1, &["a"], kind)];
        let synced = database
            .clickhouse
            .sync_property_columns(&columns, &views())
            .await;
        assert!(synced.unwrap());
        let properties: Vec<String> = cases.iter().map(|(json, _)| of_a(json)).collect();
        let properties: Vec<&str> = properties.iter().map(String::as_str).collect();
        let found = values(&database, 1, &properties).await;
        let expected: Vec<&str> = cases.iter().map(|(_, value)| *value).collect();
        assert_eq!(found, expected, "{kind:?}");
        // Of another project there are none, whatever it sends.
        let nothing = if kind.is_text() { "" } else { "NULL" };
        let of_others = values(&database, 2, &properties).await;
        assert!(of_others.iter().all(|it| it == nothing), "{of_others:?}");
    }
}

const TEXTS: [(&str, &str); 8] = [
    ("\"\"", ""),
    ("\"chrome\"", "chrome"),
    ("\"12345678\"", "12345678"),
    ("\"123456789\"", ""),
    ("\"\\u00e4\\u00f6\\u00fc\\n\\\"\"", "\u{e4}\u{f6}\u{fc}\n\""),
    ("7", ""),
    ("{\"b\":\"c\"}", ""),
    ("null", ""),
];

const TIMES: [(&str, &str); 12] = [
    ("\"2026-11-29T10:00:00Z\"", "2026-11-29 10:00:00.000000"),
    (
        "\"2026-11-29T10:00:00.123+01:00\"",
        "2026-11-29 09:00:00.123000",
    ),
    (
        "\"2026-11-29T00:30:00.1234567-00:45\"",
        "2026-11-29 01:15:00.123456",
    ),
    ("\"1971-01-01T00:00:00Z\"", "1971-01-01 00:00:00.000000"),
    ("\"2024-02-29T00:00:00Z\"", "2024-02-29 00:00:00.000000"),
    ("\"2026-02-29T00:00:00Z\"", "NULL"),
    ("\"1970-12-31T23:59:59Z\"", "NULL"),
    ("\"2299-01-01T00:00:00Z\"", "NULL"),
    ("\"2026-11-29 10:00:00Z\"", "NULL"),
    ("\"2026-11-29T10:00:00\"", "NULL"),
    ("\"2026-11-29\"", "NULL"),
    ("1795132800", "NULL"),
];

fn of_a(json: &str) -> String {
    format!("{{\"b\":1,\"a\":{json},\"a\":\"second\"}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_property_is_found_by_its_path() {
    let database = Database::make("columns_paths").await;
    let all = PropertyColumn {
        team_id: None,
        ..column(1, &["$set", "a.b", "c"], PropertyType::Int64)
    };
    let synced = database
        .clickhouse
        .sync_property_columns(&[all], &views())
        .await;
    assert!(synced.unwrap());
    let properties = [
        r#"{"$set":{"a.b":{"c":1}}}"#,
        r#"{"$set":{"a":{"b":{"c":1}}}}"#,
        r#"{"\u0024set":{"x":[{"c":9}],"a.b":{"d":2,"c":3}}}"#,
        r#"{"$set":[{"a.b":{"c":1}}]}"#,
        "{}",
        "not JSON",
    ];
    for project_id in [1, 2] {
        let found = values(&database, project_id, &properties).await;
        assert_eq!(found, ["1", "NULL", "3", "NULL", "NULL", "NULL"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_come_and_go_as_they_are_asked_for() {
    let database = Database::make("columns_sync").await;
    let (a, b) = (
        column(1, &["a"], PropertyType::String),
        column(2, &["b"], PropertyType::LowCardinality),
    );
    let another = PropertyColumn {
        team_id: Some(ProjectId(2)),
        ..a.clone()
    };
    let table: [(&[PropertyColumn], &[&str]); 5] = [
        (&[], &[]),
        (&[a.clone(), b.clone()], &["property_1", "property_2"]),
        (std::slice::from_ref(&b), &["property_2"]),
        // The same number with another definition, as after the restore of a catalog.
        (&[another, b.clone()], &["property_1", "property_2"]),
        (&[], &[]),
    ];
    let names = "SELECT name FROM system.columns WHERE database = '{db}' AND table = 'events' \
                 AND startsWith(name, 'property_') ORDER BY name";
    let mut before = 0;
    for (wanted, expected) in table {
        for is_first in [true, false] {
            let synced = database
                .clickhouse
                .sync_property_columns(wanted, &views())
                .await;
            let changes = is_first && expected.len() + before > 0;
            assert_eq!(synced.unwrap(), changes, "{wanted:?}");
            assert_eq!(database.texts(names).await, expected);
        }
        before = expected.len();
    }
}

/// Views of projects list their columns, and a dictionary would be that of all projects.
#[tokio::test]
async fn projects_see_values_of_their_own_and_no_dictionary() {
    let engine = TestEngine::start();
    let database = Database::make_on(&engine, "millrace").await;
    let login = login(&database, &engine, 1).await;
    let columns = [
        column(1, &["a"], PropertyType::LowCardinality),
        PropertyColumn {
            team_id: Some(ProjectId(2)),
            ..column(2, &["a"], PropertyType::LowCardinality)
        },
        PropertyColumn {
            team_id: None,
            ..column(3, &["n"], PropertyType::Int64)
        },
    ];
    for project_id in [1, 2] {
        let insert = format!(
            "INSERT INTO millrace.events (uuid, event, properties, timestamp, team_id, distinct_id) \
             SELECT generateUUIDv4(), 'e', '{{\"a\":\"of {project_id}\",\"n\":{project_id}}}', \
             now64(6), {project_id}, 'a'"
        );
        database.execute(&insert).await;
    }
    let synced = database
        .clickhouse
        .sync_property_columns(&columns, &views())
        .await;
    assert!(synced.unwrap());
    database
        .execute("OPTIMIZE TABLE millrace.events FINAL")
        .await;
    let ask = async |sql: &str, id: &str| {
        let mut rows = database
            .clickhouse
            .query_as(&login, &statement(sql, id))
            .await?;
        all(&mut rows).await
    };
    let sql = "SELECT property_1, property_2, toString(property_3) AS property_3 FROM events";
    let seen = ask(sql, "columns-1").await.unwrap();
    let line = r#"{"property_1":"of 1","property_2":"","property_3":"1"}"#;
    assert_eq!(seen.trim_end(), line);
    // Fails for a dictionary with the values of others.
    let sql = "SELECT toUInt8(replaceRegexpOne(property_2, '^$', '7')) AS a FROM events";
    assert_eq!(ask(sql, "columns-2").await.unwrap(), "{\"a\":7}\n");
    let shared = format!(
        "SELECT count() FROM system.columns WHERE database = '{PROJECT_DATABASE}' \
         AND type LIKE '%LowCardinality%'"
    );
    assert_eq!(database.number(&shared).await, 0);
    // A column that goes takes no view with it.
    let synced = database
        .clickhouse
        .sync_property_columns(&columns[..1], &views())
        .await;
    assert!(synced.unwrap());
    let seen = ask(
        "SELECT toString(count()) AS n, any(property_1) AS a FROM events",
        "columns-3",
    );
    assert_eq!(seen.await.unwrap(), "{\"n\":\"1\",\"a\":\"of 1\"}\n");
    assert!(
        ask("SELECT property_3 FROM events", "columns-4")
            .await
            .is_err()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_is_on_each_shard_also_on_one_that_lacks_it() {
    let engines = TestEngine::start_shards(2);
    let clickhouse = ClickHouse::new(&settings_of(&engines));
    clickhouse.migrate().await.unwrap();
    let columns = [column(1, &["a"], PropertyType::Int64)];
    let sync = async |columns: &[PropertyColumn]| {
        let synced = clickhouse.sync_property_columns(columns, &views()).await;
        synced.unwrap()
    };
    assert!(sync(&columns[..]).await);
    let insert = "INSERT INTO millrace.events (uuid, event, properties, timestamp, team_id, \
                  distinct_id) SELECT generateUUIDv4(), 'e', '{\"a\":1}', now64(6), 1, \
                  toString(number) FROM numbers(100) \
                  SETTINGS distributed_foreground_insert = 1";
    client(&engines[0])
        .query_raw(insert)
        .execute()
        .await
        .unwrap();
    let sum = "SELECT toUInt64(ifNull(sum(property_1), 0)) FROM millrace";
    let ask = async |engine: &TestEngine, table: &str| -> u64 {
        let sql = format!("{sum}.{table}");
        client(engine).query_raw(&sql).fetch_one().await.unwrap()
    };
    let [first, second] = [&engines[0], &engines[1]];
    assert_eq!(ask(first, "events").await, 100);
    let shares = [
        ask(first, "events_local").await,
        ask(second, "events_local").await,
    ];
    assert!(shares[0] > 0 && shares[0] + shares[1] == 100, "{shares:?}");
    // As a shard that was made anew.
    for table in ["events", "events_local"] {
        let drop = format!("ALTER TABLE millrace.{table} DROP COLUMN property_1");
        client(second).query_raw(&drop).execute().await.unwrap();
    }
    assert!(sync(&columns[..]).await && !sync(&columns[..]).await);
    assert_eq!(ask(second, "events").await, 100);
    assert!(sync(&[]).await);
    let left = "SELECT toUInt64(count()) FROM system.columns \
                WHERE database = 'millrace' AND startsWith(name, 'property_')";
    for engine in &engines {
        let left: u64 = client(engine).query_raw(left).fetch_one().await.unwrap();
        assert_eq!(left, 0);
    }
}

/// Parts from before a column compute its values; from some time on they have them.
#[tokio::test(flavor = "multi_thread")]
async fn past_rows_are_filled_one_month_after_the_other() {
    let database = Database::make("columns_past").await;
    for month in ["09", "10", "11"] {
        let insert = format!(
            "INSERT INTO columns_past.events (uuid, event, properties, timestamp, team_id, \
             distinct_id) SELECT generateUUIDv4(), 'e', '{{\"a\":7}}', \
             toDateTime64('2026-{month}-01', 6), number % 2, 'a' FROM numbers(10)"
        );
        database.execute(&insert).await;
    }
    let columns = [column(1, &["a"], PropertyType::Int64)];
    let clickhouse = &database.clickhouse;
    let nothing = clickhouse.fill_past_rows().await.unwrap();
    assert_eq!(nothing, PastRows::Filled);
    let synced = clickhouse.sync_property_columns(&columns, &views()).await;
    assert!(synced.unwrap());
    let sum = "SELECT toUInt64(ifNull(sum(property_1), 0)) FROM {db}.events";
    let stored = "SELECT count() FROM system.parts_columns WHERE database = '{db}' \
                  AND table = 'events' AND active AND column = 'property_1'";
    assert_eq!(database.number(sum).await, 3 * 5 * 7);
    assert_eq!(database.number(stored).await, 0);
    let mut begun = Vec::new();
    for _ in 0..1_000 {
        match clickhouse.fill_past_rows().await.unwrap() {
            PastRows::Filled => break,
            PastRows::Begun(month) => begun.push(month.0),
            PastRows::Busy { failure } => {
                assert_eq!(failure, "");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    assert_eq!(begun, [202_611, 202_610, 202_609]);
    assert_eq!(database.number(stored).await, 3);
    assert_eq!(database.number(sum).await, 3 * 5 * 7);
}
