//! Tests of persons and groups: rows of a window, and their columns.

use crate::fixture::{Database, HOUR, PROJECT, START, new_options, scope, window_query};
use millrace_catalog::{ExportModel, UtcTime};
use millrace_exports::query::ExportQuery;
use millrace_exports::rows::{ColumnCompression, EventFilter, RowForm, WindowPart};
use millrace_exports::window::{RunScope, Window, WindowBy};
use std::time::Duration;
use uuid::Uuid;

/// Limit of the work of a statement.
const WORK_MAX: Duration = Duration::from_secs(300);

/// Creates two persons of the project, one of them with two ids, and a group; the same in another
/// project.
async fn database(name: &str) -> Database {
    let database = Database::make(name).await;
    for (project_id, word) in [(PROJECT.0, "own"), (2, "foreign")] {
        database.run(&format!(
            "INSERT INTO {name}.persons SELECT {project_id}, toUUID(id), \
             fromUnixTimestamp64Micro({START} - {HOUR}, 'UTC'), p, true, is_deleted, version FROM values(\
             'id String, p String, is_deleted Bool, version UInt64', \
             ('{a}', '{{\"{word}\":1}}', false, {START}), ('{a}', '{{\"{word}\":2}}', false, {START} + 9), \
             ('{b}', '{{\"{word}\":3}}', false, {START} - 1), ('{c}', '{{}}', true, {START} + 9))",
            a = Uuid::from_u128(1),
            b = Uuid::from_u128(2),
            c = Uuid::from_u128(3),
        ));
        database.run(&format!(
            "INSERT INTO {name}.person_distinct_ids SELECT {project_id}, d, toUUID(id), version FROM values(\
             'd String, id String, version UInt64', ('one', '{a}', 5), ('two', '{c}', 5), \
             ('two', '{a}', {START} + 9), ('three', '{b}', 5))",
            a = Uuid::from_u128(1),
            b = Uuid::from_u128(2),
            c = Uuid::from_u128(3),
        ));
        database.run(&format!(
            "INSERT INTO {name}.groups VALUES ({project_id}, 'company', 'acme', \
             fromUnixTimestamp64Micro({START}, 'UTC'), '{{\"{word}\":1}}', {START} + 1)"
        ));
    }
    database
}

fn persons() -> RunScope {
    RunScope {
        model: ExportModel::Persons,
        ..scope()
    }
}

async fn lines(
    database: &Database,
    scope: &RunScope,
    query: Option<&str>,
    form: RowForm,
    part: WindowPart,
) -> Vec<String> {
    let filter = EventFilter::default();
    let query = query.map(|text| ExportQuery::parse(text).unwrap());
    let window_query = window_query(&database.clickhouse, scope, &filter, query.as_ref());
    let statement = window_query.statement(form, part).unwrap();
    let options = new_options(&statement);
    let mut stream = database.clickhouse.read(&statement.sql, &options).unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await.unwrap() {
        bytes.extend_from_slice(&piece);
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn changed_persons_have_a_row_for_each_id() {
    let database = database("persons_changed").await;
    let line = |id: &str, version: i64| {
        format!(
            "{{\"team_id\":1,\"distinct_id\":\"{id}\",\"person_id\":\"{}\",\"properties\":{{\"own\":2}},\
             \"is_identified\":true,\"created_at\":\"2026-11-19T23:00:00.000000Z\",\
             \"person_distinct_id_version\":{version},\"person_version\":{}}}",
            Uuid::from_u128(1),
            START + 9
        )
    };
    let expected = [line("one", 5), line("two", START + 9)];
    let found = lines(
        &database,
        &persons(),
        None,
        RowForm::JsonLines,
        WindowPart::WHOLE,
    )
    .await;
    assert_eq!(found, expected);
    let mut cut = Vec::new();
    for index in 0..3 {
        let part = WindowPart { index, count: 3 };
        cut.extend(lines(&database, &persons(), None, RowForm::JsonLines, part).await);
    }
    cut.sort();
    assert_eq!(cut, expected);
    // Tables have their columns in another order, and one column less.
    let found = lines(
        &database,
        &persons(),
        None,
        RowForm::TableJsonLines,
        WindowPart::WHOLE,
    )
    .await;
    let of_table = |id: &str, version: i64| {
        format!(
            "{{\"team_id\":1,\"distinct_id\":\"{id}\",\"person_id\":\"{}\",\"properties\":{{\"own\":2}},\
             \"person_distinct_id_version\":{version},\"person_version\":{},\
             \"created_at\":\"2026-11-19T23:00:00.000000Z\"}}",
            Uuid::from_u128(1),
            START + 9
        )
    };
    assert_eq!(found, [of_table("one", 5), of_table("two", START + 9)]);
    let before = RunScope {
        window: Window {
            start: None,
            end: UtcTime(START),
            by: WindowBy::Arrival,
        },
        ..persons()
    };
    let found = lines(&database, &before, None, RowForm::Csv, WindowPart::WHOLE).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].contains("three"), "{found:?}");
    let none = ColumnCompression::None;
    let found = lines(
        &database,
        &before,
        None,
        RowForm::Parquet(none),
        WindowPart::WHOLE,
    )
    .await;
    assert!(found.concat().contains("three"));
}

#[tokio::test]
async fn queries_see_persons_and_groups_of_their_project() {
    let database = database("persons_queried").await;
    let ask = async |query: &str| {
        lines(
            &database,
            &scope(),
            Some(query),
            RowForm::JsonLines,
            WindowPart::WHOLE,
        )
        .await
    };
    let found = ask("SELECT distinct_id, properties FROM persons").await;
    assert_eq!(
        found,
        [
            r#"{"distinct_id":"one","properties":"{\"own\":2}"}"#,
            r#"{"distinct_id":"two","properties":"{\"own\":2}"}"#,
        ]
    );
    let found = ask("SELECT group_type, group_key, properties FROM groups").await;
    let expected = r#"{"group_type":"company","group_key":"acme","properties":"{\"own\":1}"}"#;
    assert_eq!(found, [expected]);
}

#[tokio::test]
async fn persons_are_in_the_window_of_their_last_change() {
    let database = database("persons_windows").await;
    let filter = EventFilter::default();
    let all = RunScope {
        window: Window {
            start: Some(UtcTime(START - HOUR)),
            end: UtcTime(START + HOUR),
            by: WindowBy::Arrival,
        },
        ..persons()
    };
    let window_query = window_query(&database.clickhouse, &all, &filter, None);
    let hour = "hour".parse().unwrap();
    assert_eq!(window_query.count_windows(hour, WORK_MAX).await.unwrap(), 2);
    let first = window_query.first_windows(hour, 1, WORK_MAX).await.unwrap();
    assert_eq!(first, [(UtcTime(START - HOUR), UtcTime(START))]);
}
