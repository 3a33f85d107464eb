//! Tests of the rows that a statement reads.

use crate::fixture::{Database, Event, HOUR, PROJECT, START, scope, window_query};
use millrace_catalog::{ProjectId, UtcTime};
use millrace_clickhouse::{ClickHouse, Settings};
use millrace_embedded::testing::{gateway_repeating, gateway_with_page, shared};
use millrace_exports::query::ExportQuery;
use millrace_exports::rows::{
    ColumnCompression, EventFilter, RowForm, WindowPart, WindowSearchError,
};
use millrace_exports::window::{Window, WindowBy};
use millrace_exports::{ExportErrorKind, ExportInterval};
use std::collections::BTreeSet;
use std::time::Duration;

/// Longer than a statement takes on a busy machine.
const WORK_MAX: Duration = Duration::from_secs(300);

/// One row at each edge of the window, with its position as its name.
fn rows() -> Vec<Event> {
    let places = [
        ("first", START, PROJECT),
        ("last", START + HOUR - 1, PROJECT),
        ("before", START - 1, PROJECT),
        ("after", START + HOUR, PROJECT),
        ("theirs", START, ProjectId(2)),
        ("negative", START, ProjectId(-1)),
        ("it's \\ '; odd", START + 5, PROJECT),
    ];
    let rows = places
        .into_iter()
        .enumerate()
        .map(|(n, (event, at, project_id))| Event {
            event: event.to_owned(),
            created_at: at,
            timestamp: at + 2 * HOUR,
            project_id,
            ..Event::nth(n as u32)
        });
    rows.collect()
}

async fn names(database: &Database, window: Window, filter: &EventFilter) -> BTreeSet<String> {
    let mut scope = scope();
    scope.window = window;
    let window_query = window_query(&database.clickhouse, &scope, filter, None);
    let statement = window_query
        .statement(RowForm::JsonLines, WindowPart::WHOLE)
        .unwrap();
    let bytes = database.bytes(&statement).await.unwrap();
    let lines = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let names: BTreeSet<String> = lines
        .map(|line| {
            let row: serde_json::Value = serde_json::from_slice(line).unwrap();
            row["event"].as_str().unwrap().to_owned()
        })
        .collect();
    let counted = database
        .number(&window_query.count(WindowPart::WHOLE).unwrap())
        .await;
    assert_eq!(counted, names.len() as u64);
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_of_every_interval_begin_at_its_clock_boundaries() {
    const DAY: i64 = 24 * HOUR;
    const WEEK: i64 = 7 * DAY;
    let database = Database::make("intervals").await;
    // Around 1900, 1970 and 2299, between which ClickHouse's times lie, and at edges of weeks.
    let sunday = START - START.rem_euclid(WEEK) + 3 * DAY;
    let times = [
        -25_567 * DAY,
        -WEEK,
        -1,
        0,
        START,
        START + 3 * HOUR,
        START + 8 * DAY,
        sunday - 1,
        sunday,
        120_000 * DAY,
    ];
    let events: Vec<Event> = (0..)
        .zip(times)
        .map(|(n, timestamp)| Event {
            timestamp,
            ..Event::nth(n)
        })
        .collect();
    database.store(&events);
    let mut scope = scope();
    scope.window = Window {
        start: None,
        end: UtcTime(i64::MAX),
        by: WindowBy::Timestamp {
            arrived_before: UtcTime(i64::MAX),
        },
    };
    let filter = EventFilter::default();
    let window_query = window_query(&database.clickhouse, &scope, &filter, None);
    let intervals = ["hour", "day", "week", "every 5 minutes", "every 59 minutes"];
    for name in intervals {
        let interval: ExportInterval = name.parse().unwrap();
        let expected: BTreeSet<_> = times
            .iter()
            .map(|at| UtcTime(*at))
            .map(|at| (interval.window_start(at), interval.window_end(at)))
            .collect();
        let found = window_query.first_windows(interval, 100, WORK_MAX);
        let found = found.await.unwrap();
        assert_eq!(found, Vec::from_iter(expected), "{name}");
        let counted = window_query.count_windows(interval, WORK_MAX);
        let counted = counted.await.unwrap();
        assert_eq!(counted, found.len() as u64, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_clickhouses_is_not_taken_for_no_windows() {
    let (scope, filter) = (scope(), EventFilter::default());
    let hour: ExportInterval = "hour".parse().unwrap();
    for page in ["", "<html>We are back soon</html>"] {
        let settings = Settings::new(gateway_with_page(page), "u", "p");
        let clickhouse = ClickHouse::new(&settings);
        let window_query = window_query(&clickhouse, &scope, &filter, None);
        let found = window_query.first_windows(hour, 100, WORK_MAX).await;
        let counted = window_query.count_windows(hour, WORK_MAX).await;
        for failed in [found.unwrap_err(), counted.unwrap_err()] {
            let waits = matches!(
                &failed,
                WindowSearchError::Rows(error) if error.kind == ExportErrorKind::Waiting
            );
            assert!(waits, "{page}: {failed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_an_earlier_search_is_not_taken_for_no_windows() {
    let database = Database::make("stale_windows").await;
    let (scope, filter) = (scope(), EventFilter::default());
    let hour: ExportInterval = "hour".parse().unwrap();
    let behind_cache = || {
        let engine = shared();
        let url = gateway_repeating(&engine.url, "AS number");
        let mut settings = Settings::new(url, &engine.user, &engine.password);
        settings.database.clone_from(&database.name);
        ClickHouse::new(&settings)
    };
    let (searched, counted) = (behind_cache(), behind_cache());
    let searches = window_query(&searched, &scope, &filter, None);
    let counts = window_query(&counted, &scope, &filter, None);
    let found = searches.first_windows(hour, 100, WORK_MAX).await;
    assert!(found.unwrap().is_empty());
    assert_eq!(counts.count_windows(hour, WORK_MAX).await.unwrap(), 0);
    database.store(&[Event::nth(0)]);
    let found = searches.first_windows(hour, 100, WORK_MAX).await;
    let counted = counts.count_windows(hour, WORK_MAX).await;
    for failed in [found.unwrap_err(), counted.unwrap_err()] {
        let waits = matches!(
            &failed,
            WindowSearchError::Rows(error) if error.kind == ExportErrorKind::Waiting
        );
        assert!(waits, "{failed}");
    }
}

/// Names that look like calls of functions that read from elsewhere, and like texts and comments of
/// SQL.
const LIKE_CALLS: [&str; 8] = [
    "Uploaded file (PDF)",
    "file(",
    "remote(",
    "url (x)",
    "it's \\'file (x)",
    "-- file(x) /*",
    "$$file(x)$$",
    "\u{2018}file(x)\u{2019}",
];

#[tokio::test(flavor = "multi_thread")]
async fn names_that_look_like_calls_are_exported_by_filters_and_by_queries() {
    let database = Database::make("like_calls").await;
    let event = |(n, name): (u32, &&str)| Event {
        event: (*name).to_owned(),
        ..Event::nth(n)
    };
    let events: Vec<_> = (0..).zip(&LIKE_CALLS).map(event).collect();
    database.store(&events);
    let window = scope().window;
    let all: BTreeSet<_> = LIKE_CALLS.map(str::to_owned).into();
    let include = EventFilter {
        include: LIKE_CALLS.map(str::to_owned).into(),
        exclude: Vec::new(),
    };
    assert_eq!(names(&database, window, &include).await, all);
    let exclude = EventFilter {
        include: Vec::new(),
        exclude: include.include,
    };
    assert!(names(&database, window, &exclude).await.is_empty());
    for sql in [
        "SELECT event FROM events WHERE event IN ('Uploaded file (PDF)', 'x')",
        "SELECT event FROM events WHERE event LIKE 'Uploaded file (%'",
        "SELECT concat(event, '') AS event FROM events WHERE event = 'Uploaded file (PDF)'",
    ] {
        let query = ExportQuery::parse(sql).unwrap();
        let read = database.read(Some(&query), RowForm::JsonLines).await;
        let read = String::from_utf8(read).unwrap();
        assert!(read.contains("Uploaded file (PDF)"), "{sql}: {read}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_has_the_rows_of_its_project_its_time_and_its_filter() {
    let database = Database::make("windows").await;
    database.store(&rows());
    let arrival = scope().window;
    let window = |start: Option<i64>, end: i64, by| Window {
        start: start.map(UtcTime),
        end: UtcTime(end),
        by,
    };
    let filter = |include: &[&str], exclude: &[&str]| EventFilter {
        include: include.iter().map(|name| (*name).to_owned()).collect(),
        exclude: exclude.iter().map(|name| (*name).to_owned()).collect(),
    };
    let by_timestamp = |micros| WindowBy::Timestamp {
        arrived_before: UtcTime(micros),
    };
    let odd = "it's \\ '; odd";
    let all = filter(&[], &[]);
    let later = START + 2 * HOUR;
    let table = [
        (arrival, all.clone(), vec!["first", "last", odd]),
        (arrival, filter(&[odd], &[]), vec![odd]),
        (
            arrival,
            filter(&[], &[odd, "before"]),
            vec!["first", "last"],
        ),
        (arrival, filter(&["first", odd], &["first"]), vec![odd]),
        (arrival, filter(&["theirs", "') OR 1=1 --"], &[]), vec![]),
        (
            window(None, START, WindowBy::Arrival),
            all.clone(),
            vec!["before"],
        ),
        (
            window(None, START + 2 * HOUR, WindowBy::Arrival),
            all.clone(),
            vec!["before", "first", "last", odd, "after"],
        ),
        (
            window(Some(START), START + HOUR, by_timestamp(i64::MAX)),
            all.clone(),
            vec![],
        ),
        (
            window(Some(later), later + 1, by_timestamp(i64::MAX)),
            all.clone(),
            vec!["first"],
        ),
        (
            window(Some(later), later + 1, by_timestamp(START)),
            all,
            vec![],
        ),
    ];
    for (window, filter, expected) in table {
        let expected: BTreeSet<String> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(
            names(&database, window, &filter).await,
            expected,
            "{window:?} {filter:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_have_each_row_once() {
    let database = Database::make("parts").await;
    let events: Vec<Event> = (0..1_000).map(Event::nth).collect();
    database.store(&events);
    let (scope, filter) = (scope(), EventFilter::default());
    let query = ExportQuery::parse("SELECT uuid FROM events WHERE event != 'bought'").unwrap();
    for query in [None, Some(&query)] {
        let window_query = window_query(&database.clickhouse, &scope, &filter, query);
        let whole = window_query
            .statement(RowForm::JsonLines, WindowPart::WHOLE)
            .unwrap();
        let whole = crate::fixture::sorted_lines(&database.bytes(&whole).await.unwrap());
        let mut together = Vec::new();
        for index in 0..7 {
            let part = WindowPart { index, count: 7 };
            let statement = window_query.statement(RowForm::JsonLines, part).unwrap();
            let bytes = database.bytes(&statement).await.unwrap();
            let lines = crate::fixture::sorted_lines(&bytes);
            let counted = database.number(&window_query.count(part).unwrap()).await;
            assert_eq!(counted, lines.len() as u64);
            assert!(lines.len() > whole.len() / 14, "parts are alike in size");
            together.extend(lines);
        }
        together.sort_unstable();
        assert_eq!(together, whole);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_estimated_row_size_is_close_to_the_real_one() {
    let database = Database::make("sizes").await;
    let (scope, filter) = (scope(), EventFilter::default());
    let bytes = async || {
        let window_query = window_query(&database.clickhouse, &scope, &filter, None);
        database.number(&window_query.row_bytes().unwrap()).await
    };
    assert_eq!(bytes().await, 0);
    let large = |n: u32| Event {
        properties: format!("{{\"a\":\"{}\"}}", "x".repeat(1_000)),
        ..Event::nth(n)
    };
    database.store(&(0..100).map(large).collect::<Vec<_>>());
    let bytes = bytes().await;
    assert!((1_000..1_300).contains(&bytes), "{bytes}");
}

/// Statements that cannot be built are refused before anything is sent.
#[test]
fn unsupported_forms_and_queries_without_parts_are_refused_with_a_reason() {
    let settings = Settings::new("http://127.0.0.1:9", "u", "p");
    let clickhouse = ClickHouse::new(&settings);
    let (scope, filter) = (scope(), EventFilter::default());
    let parse = |text: &str| ExportQuery::parse(text).unwrap();
    let half = WindowPart { index: 1, count: 2 };
    let table = [
        (
            Some("SELECT count() FROM events"),
            half,
            RowForm::Csv,
            "files",
        ),
        (
            Some("SELECT DISTINCT event FROM events"),
            half,
            RowForm::Csv,
            "files",
        ),
        (
            Some("SELECT event FROM events GROUP BY event"),
            half,
            RowForm::Csv,
            "files",
        ),
        (
            Some("SELECT 1 AS a FROM events HAVING a = 1"),
            half,
            RowForm::Csv,
            "files",
        ),
        (
            None,
            WindowPart::WHOLE,
            RowForm::Arrow(ColumnCompression::Brotli),
            "zstd",
        ),
    ];
    for (query, part, form, words) in table {
        let query = query.map(parse);
        let window_query = window_query(&clickhouse, &scope, &filter, query.as_ref());
        let error = window_query.statement(form, part).unwrap_err();
        assert_eq!(error.kind, ExportErrorKind::Permanent);
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn aggregating_queries_are_recognized() {
    let aggregates = [
        ("SELECT uuid FROM events", false),
        ("SELECT arrayJoin([1, 2]) FROM events", false),
        ("SELECT sum(1) + 1 FROM events", true),
        ("SELECT if(1, quantile(0.5)(1), 2) FROM events", true),
    ];
    for (text, expected) in aggregates {
        let query = ExportQuery::parse(text).unwrap();
        assert_eq!(query.is_aggregating(), expected, "{text}");
    }
}
