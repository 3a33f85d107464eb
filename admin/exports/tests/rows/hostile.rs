//! Tests that no query sees rows of others: it is refused with a reason, or has the same result as
//! if there were no others.

use crate::fixture::{
    Database, Event, HOUR, START, new_options, scope, sorted_lines, window_query,
};
use crate::hostile_texts;
use millrace_catalog::ProjectId;
use millrace_clickhouse::QueryError;
use millrace_exports::query::ExportQuery;
use millrace_exports::rows::{EventFilter, RowForm, WindowPart};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::HashSet;
use std::time::Duration;
use uuid::Uuid;

/// Text in every row that must not be seen.
const CANARY: &str = "CANARY";
/// Far more time than a query may take, so that only an endless one exceeds it.
const DEADLINE: Duration = Duration::from_secs(60);
/// Bytes of an answer that are examined.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Two databases with the same visible rows; one has other rows beside them.
struct Pair {
    alone: Database,
    among: Database,
}

impl Pair {
    async fn make(name: &str) -> Self {
        let pair = Self {
            alone: Database::make(&format!("{name}_alone")).await,
            among: Database::make(&format!("{name}_among")).await,
        };
        let own: Vec<Event> = (0..12).map(Event::nth).collect();
        pair.alone.store(&own);
        // Together, so that their names are in one dictionary.
        pair.among.store(&[own, canaries()].concat());
        let name = &pair.among.name;
        // Persons and groups of another project, and one of this project that changed at another
        // time.
        for (project_id, version) in [(2, START), (1, START - 1)] {
            pair.among.run(&format!(
                "INSERT INTO {name}.persons SELECT {project_id}, toUUIDOrZero(''), \
                 toDateTime64(0, 6), '{CANARY}', true, false, {version}"
            ));
            pair.among.run(&format!(
                "INSERT INTO {name}.person_distinct_ids SELECT {project_id}, '{CANARY}', \
                 toUUIDOrZero(''), {version}"
            ));
            pair.among.run(&format!(
                "INSERT INTO {name}.groups SELECT {project_id}, '{CANARY}', '{CANARY}', \
                 toDateTime64(0, 6), '{CANARY}', {version}"
            ));
        }
        pair
    }
}

/// Rows of another project, of another time, and of an event that the filter leaves out.
fn canaries() -> Vec<Event> {
    let mut rows = Vec::new();
    for n in 0..30 {
        let mut row = Event::nth(n);
        row.uuid = Uuid::from_u128(0xb0 << 120 | u128::from(n));
        row.properties = format!(r#"{{"$browser": "{CANARY}", "a": "{CANARY}"}}"#);
        row.distinct_id = format!("{CANARY} {n}");
        match n % 3 {
            0 => {
                row.project_id = ProjectId(2);
                row.event = format!("{CANARY} of others");
            }
            1 => row.created_at = START + HOUR,
            _ => row.event = format!("{CANARY} left out"),
        }
        rows.push(row);
    }
    rows
}

/// Result of a query; `None` if it is larger than the part that is examined.
async fn answer(database: &Database, query: &ExportQuery) -> Result<Option<Vec<u8>>, QueryError> {
    let filter = EventFilter {
        include: Vec::new(),
        exclude: vec![format!("{CANARY} left out")],
    };
    let scope = scope();
    let window_query = window_query(&database.clickhouse, &scope, &filter, Some(query));
    let statement = match window_query.statement(RowForm::JsonLines, WindowPart::WHOLE) {
        Ok(statement) => statement,
        // The form does not support the query.
        Err(_) => return Ok(Some(Vec::new())),
    };
    let mut options = new_options(&statement);
    options.threads_max = 1;
    options.memory_bytes_max = 200 << 20;
    options.duration_max = Duration::from_secs(5);
    let mut stream = database.clickhouse.read(&statement.sql, &options)?;
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > ANSWER_BYTES_MAX {
            return Ok(None);
        }
    }
    Ok(Some(bytes))
}

/// Checks a query, and returns true if it was accepted; a failed check names it.
async fn check(pair: &Pair, text: &str) -> bool {
    let query = match ExportQuery::parse(text) {
        Ok(query) => query,
        Err(error) => {
            let reason = error.to_string();
            assert!(
                reason.len() > 20 && reason.ends_with('.'),
                "{text}: {reason}"
            );
            return false;
        }
    };
    let both = async {
        let among = answer(&pair.among, &query).await;
        (answer(&pair.alone, &query).await, among)
    };
    let Ok((alone, among)) = tokio::time::timeout(DEADLINE, both).await else {
        panic!("{text}: no answer within {DEADLINE:?}");
    };
    match (alone, among) {
        (Ok(alone), Ok(among)) => {
            let seen = among.as_deref().unwrap_or_default();
            let written = String::from_utf8_lossy(seen);
            assert!(!written.contains(CANARY) || text.contains(CANARY), "{text}");
            let lines = |bytes: Option<Vec<u8>>| bytes.map(|bytes| sorted_lines(&bytes));
            // Time passes between the two.
            if !text.to_lowercase().contains("now") {
                assert_eq!(lines(among), lines(alone), "{text}");
            }
        }
        (Err(alone), Err(among)) => assert_eq!(among.code, alone.code, "{text}: {among}"),
        (alone, among) => panic!("{text}: alone {alone:?}, among others {among:?}"),
    }
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn no_hostile_query_sees_rows_of_others() {
    let pair = Pair::make("hostile").await;
    let texts = hostile_texts::all(&pair.among.name);
    let different: HashSet<&String> = texts.iter().collect();
    let (mut refused, mut taken) = (0, 0);
    for text in different {
        match check(&pair, text).await {
            true => taken += 1,
            false => refused += 1,
        }
    }
    println!("{refused} hostile queries refused, {taken} taken and harmless");
    assert!(refused >= 300, "{refused}");
    assert!(taken >= 50, "{taken}");
}

/// Expressions by a grammar of allowed and forbidden pieces.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "uuid",
        "event",
        "team_id",
        "e.team_id",
        "created_at",
        "timestamp",
        "properties",
        "distinct_id",
        "1",
        "2",
        "-1",
        "'x'",
        "'\\''",
        "''''",
        "'\\\\'",
        "NULL",
        "true",
        "a",
        "b",
        "`team_id`",
        "now()",
        "'CANARY'",
        "*",
        "count()",
        "1.5",
        "'a) OR (1=1'",
        "{x:String}",
        "(SELECT 1)",
        "events",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 3, |inner| {
        let one = inner.clone();
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            one.clone().prop_map(|x| format!("({x})")),
            one.clone().prop_map(|x| format!("NOT {x}")),
            one.clone().prop_map(|x| format!("- {x}")),
            one.clone().prop_map(|x| format!("{x} IS NULL")),
            one.clone().prop_map(|x| format!("toString({x})")),
            one.clone().prop_map(|x| format!("max({x})")),
            one.clone().prop_map(|x| format!("groupArray({x})")),
            one.clone().prop_map(|x| format!("arrayJoin([{x}])")),
            one.clone()
                .prop_map(|x| format!("CAST({x} AS Nullable(String))")),
            one.clone().prop_map(|x| format!("{x} IN (1, 'x')")),
            one.prop_map(|x| format!("{x} IN (events)")),
            (
                pair.clone(),
                prop::sample::select(vec![
                    "=", "!=", "<", ">", "+", "-", "*", "/", "%", "||", "AND", "OR", "LIKE", "IN",
                    "<=>",
                ])
            )
                .prop_map(|((x, y), op)| format!("{x} {op} {y}")),
            pair.clone().prop_map(|(x, y)| format!("if({x}, {y}, {x})")),
            pair.clone().prop_map(|(x, y)| format!("tuple({x}, {y})")),
            pair.clone()
                .prop_map(|(x, y)| format!("CASE WHEN {x} THEN {y} END")),
            pair.clone()
                .prop_map(|(x, y)| format!("{x} BETWEEN {y} AND {x}")),
            pair.prop_map(|(x, y)| format!("arrayElement({x}, {y})")),
        ]
    })
}

fn query() -> impl Strategy<Value = String> {
    let aliases = prop::sample::select(vec![
        "",
        "",
        " AS a",
        " AS b",
        " AS team_id",
        " AS uuid",
        " AS created_at",
        " AS event",
        " AS `e`",
    ]);
    let column = (expression(), aliases).prop_map(|(x, alias)| format!("{x}{alias}"));
    let columns = prop::collection::vec(column, 1..4).prop_map(|all| all.join(", "));
    let source = prop::sample::select(vec![
        "events",
        "events AS e",
        "events e",
        "`events`",
        "events AS team_id",
        "persons",
        "system.one",
        "(SELECT * FROM events)",
        "events FINAL",
        "hostile_made_among.events",
    ]);
    let clause = |word: &'static str| {
        prop::option::of(expression())
            .prop_map(move |x| x.map_or_else(String::new, |x| format!(" {word} {x}")))
    };
    let end = prop::sample::select(vec![
        "",
        "",
        "",
        "",
        ";",
        " -- x",
        " /* x */",
        " FORMAT CSV",
        " UNION ALL SELECT 1",
        " LIMIT 1",
    ]);
    let distinct = prop::sample::select(vec!["", "", "DISTINCT "]);
    let parts = (
        distinct,
        columns,
        source,
        clause("WHERE"),
        clause("GROUP BY"),
        clause("HAVING"),
        end,
    );
    parts.prop_map(
        |(distinct, columns, source, condition, keys, having, end)| {
            format!("SELECT {distinct}{columns} FROM {source}{condition}{keys}{having}{end}")
        },
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn no_made_up_query_sees_rows_of_others() {
    let pair = Pair::make("hostile_made").await;
    let runtime = tokio::runtime::Handle::current();
    let taken = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config {
        cases: 600,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(7),
        ..Config::default()
    });
    let outcome = tokio::task::block_in_place(|| {
        runner.run(&query(), |text| {
            let was_taken = runtime.block_on(check(&pair, &text));
            taken.set(taken.get() + u32::from(was_taken));
            Ok(())
        })
    });
    outcome.unwrap();
    println!("{} of 600 made-up queries taken and harmless", taken.get());
    assert!(taken.get() >= 60, "{}", taken.get());
}
