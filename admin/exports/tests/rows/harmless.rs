//! Tests that a rewritten query means the same as the original: both are run, and have the same
//! result.

use crate::fixture::{Database, Event};
use millrace_exports::query::{ExportQuery, functions};
use millrace_exports::rows::RowForm;
use std::collections::{BTreeMap, BTreeSet};

/// Format settings for both, so that results do not differ by format.
const FORMAT: [(&str, &str); 6] = [
    ("output_format_json_escape_forward_slashes", "0"),
    ("output_format_json_quote_64bit_integers", "0"),
    ("output_format_json_quote_denormals", "0"),
    ("output_format_json_validate_utf8", "1"),
    ("date_time_output_format", "iso"),
    ("default_format", "JSONEachRow"),
];

/// Queries in which every column has a name, as ClickHouse would choose another default name.
const QUERIES: &[&str] = &[
    "SELECT * FROM events",
    "SELECT uuid, event FROM events",
    "SELECT e.uuid, e.event AS name FROM events AS e WHERE e.event = 'seen'",
    "SELECT e.uuid FROM events e",
    "SELECT events.uuid FROM events",
    "SELECT \"uuid\", `event` FROM events",
    "SELECT DISTINCT event FROM events",
    "SELECT count() AS n FROM events",
    "SELECT count(*) AS n FROM events",
    "SELECT count(DISTINCT event) AS n FROM events",
    "SELECT event, count() AS n FROM events GROUP BY event HAVING n > 3",
    "SELECT event AS e, count() AS n FROM events GROUP BY 1",
    "SELECT event, distinct_id, max(timestamp) AS t FROM events GROUP BY event, distinct_id",
    "SELECT toDate(timestamp) AS timestamp, count() AS n FROM events GROUP BY timestamp",
    "SELECT toString(uuid) AS uuid FROM events WHERE uuid LIKE 'a%'",
    "SELECT quantile(0.5)(JSONExtractFloat(properties, 'price')) AS q FROM events",
    "SELECT quantiles(0.5, 0.9)(team_id) AS q FROM events",
    "SELECT topK(2)(event) AS t FROM events",
    "SELECT JSONExtractString(properties, '$browser') AS `the browser` FROM events",
    "SELECT JSONExtractRaw(properties, 'tags', 2) AS tag, uuid FROM events",
    "SELECT arrayJoin(JSONExtractArrayRaw(properties, 'tags')) AS tag, uuid FROM events",
    "SELECT uuid, 1 + 2 * 3 - 4 / 5 % 6 AS n FROM events",
    "SELECT uuid, (1 + 2) * 3 AS n, -(1 + 2) AS m, - -2 AS o, +3 AS p FROM events",
    "SELECT uuid, 10 - 4 - 3 AS a, 100 / 5 / 2 AS b, 100 / (5 / 2) AS c, 2 - (3 - 4) AS d FROM events",
    "SELECT uuid, 1 < 2 = 1 AS a, 1 = 1 = 1 AS b, NOT 1 = 2 AS c FROM events",
    "SELECT uuid, 1 = 2 OR 1 = 1 AND 1 = 2 AS a, NOT 1 AND 0 AS b, NOT (1 AND 0) AS c FROM events",
    "SELECT uuid, true AND false OR true AS a FROM events",
    "SELECT uuid, 'a' || 'b' || 'c' AS t, 'a' || toString(1 + 2) AS u FROM events",
    "SELECT uuid, 5 BETWEEN 1 AND 3 + 4 AS a, 5 NOT BETWEEN 1 AND 3 AS b FROM events",
    "SELECT uuid, 1 BETWEEN 0 AND 2 AND 1 AS a FROM events",
    "SELECT uuid, event IN ('seen', 'x') AS a, team_id NOT IN (1, -2, 3.5) AS b FROM events",
    "SELECT uuid, (event, team_id) IN (('seen', 1), ('x', 2)) AS a FROM events",
    "SELECT uuid, event LIKE '$%' AS a, event NOT LIKE '%e%' AS b, event ILIKE 'S%' AS c FROM events",
    "SELECT uuid, event NOT ILIKE 'S%' AS c FROM events",
    "SELECT uuid, NULL AS n, event IS NULL AS a, event IS NOT NULL AS b, nullIf(1, 1) IS NULL AS c FROM events",
    "SELECT uuid, 1 = 1 IS TRUE AS a, NULL IS NOT TRUE AS b, (1 = 2) IS FALSE AS c, 1 IS NOT FALSE AS d FROM events",
    "SELECT uuid, CASE WHEN event = 'seen' THEN 1 WHEN event = 'x' THEN 2 ELSE 3 END AS c FROM events",
    "SELECT uuid, CASE event WHEN 'seen' THEN 'a' ELSE 'b' END AS c FROM events",
    "SELECT uuid, CASE WHEN 1 = 2 THEN 1 END AS c FROM events",
    "SELECT uuid, CAST('12' AS UInt8) AS a, CAST(1 AS Nullable(String)) AS b, '3'::Int32 AS c FROM events",
    "SELECT uuid, CAST(timestamp AS Date) AS a, CAST(timestamp AS DateTime64(3)) AS b FROM events",
    "SELECT uuid, CAST('x' AS LowCardinality(String)) AS a, CAST(1 AS Bool) AS b, CAST(1 AS Int8) AS c FROM events",
    "SELECT uuid, timestamp + INTERVAL 1 DAY AS a, timestamp - INTERVAL 2 + 3 HOUR AS b FROM events",
    "SELECT uuid, [1, 2, 3][2] AS a, ['a', 'b'][1] AS b, (1, 'x') AS c, [[1], [2]][2][1] AS d FROM events",
    "SELECT uuid, tupleElement((1, 'x'), 2) AS a, map('k', 1)['k'] AS b FROM events",
    "SELECT uuid, if(event = 'seen', 1, 2) AS a, multiIf(1 = 2, 'a', 1 = 1, 'b', 'c') AS b FROM events",
    "SELECT uuid, ceil(1.5) AS a, floor(-1.5) AS b, round(2.345, 2) AS c FROM events",
    "SELECT uuid, position('abc', 'b') AS a, position('b' IN 'abc') AS b FROM events",
    "SELECT uuid, substring('abcdef', 2) AS a, substring('abcdef', 2, 3) AS b FROM events",
    "SELECT uuid, substring('abcdef' FROM 2 FOR 3) AS c FROM events",
    "SELECT uuid, trim('  a ') AS a, trimLeft('  a ') AS b, trimRight(' a ') AS c FROM events",
    "SELECT uuid, 1.5 AS a, 1e3 AS b, 1.5e-3 AS c, 0.25 AS d, 18446744073709551615 AS e FROM events",
    "SELECT uuid, 'it''s' AS a, 'it\\'s' AS b, 'tab\\there' AS c, 'back\\\\slash' AS d FROM events",
    "SELECT uuid, '\\d+\\.\\%\\_' AS a, '\\x41\\n' AS b, '\\\"\\`\\/\\=\\-' AS c, '\\a\\b\\e\\f\\v\\r' AS d FROM events",
    "SELECT uuid, match(distinct_id, '^\\\\w+ \\\\d$') AS a, match(distinct_id, '\\d') AS b FROM events",
    "SELECT uuid, replaceRegexpAll(distinct_id, '(\\\\w)', '<\\\\1>') AS a FROM events",
    "SELECT uuid, 'é漢\u{1f600}' AS a, lengthUTF8('é漢') AS b, '-- no comment /*' AS c FROM events",
    "SELECT uuid /* a comment */, event -- another\n FROM events -- a third",
    "SELECT uuid FROM events WHERE timestamp >= toDateTime('2026-11-19 23:00:10') AND team_id = 1",
    "SELECT uuid FROM events WHERE event = 'seen' OR event = 'bought' AND historical_migration",
    "SELECT uuid FROM events WHERE (event = 'seen' OR event = 'bought') AND historical_migration = true",
    "SELECT formatDateTime(timestamp, '%Y-%m-%d %H:%i:%S') AS t FROM events",
    "SELECT toStartOfInterval(timestamp, INTERVAL 5 MINUTE) AS t, uniq(distinct_id) AS n FROM events GROUP BY t",
    "SELECT sum(team_id) AS team_id FROM events",
    "SELECT 1 AS events FROM events",
    "SELECT event AS uuid, 2 AS team_id FROM events",
    "SELECT cityHash64(uuid) AS h, hex(MD5(event)) AS m FROM events",
    "SELECT min(created_at) AS a, argMax(event, timestamp) AS b FROM events HAVING count() > 1",
    "SELECT properties FROM events;",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_rewritten_query_has_the_result_of_the_original() {
    // All rows may be seen here, so the original may be run as it is.
    let database = Database::make("harmless").await;
    database.store(&(0..40).map(Event::nth).collect::<Vec<_>>());
    for text in QUERIES {
        let query = ExportQuery::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let written = database.read(Some(&query), RowForm::JsonLines).await;
        let plain = database.ask(text.trim_end_matches(';'), &FORMAT);
        let plain = plain.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(!written.is_empty(), "{text}");
        assert_eq!(objects(&written), objects(plain.as_bytes()), "{text}");
    }
}

/// Rows, sorted, with their columns sorted.
fn objects(lines: &[u8]) -> Vec<String> {
    let lines = lines.split(|byte| *byte == b'\n');
    let object = |line: &[u8]| -> BTreeMap<String, serde_json::Value> {
        serde_json::from_slice(line).unwrap()
    };
    let lines = lines.filter(|line| !line.is_empty());
    let mut objects: Vec<String> = lines.map(|line| format!("{:?}", object(line))).collect();
    objects.sort_unstable();
    objects
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_have_the_names_of_the_schema() {
    let database = Database::make("named").await;
    database.store(&[Event::nth(0)]);
    let text = "SELECT uuid, e.event, 1 + 2, toDate(timestamp), count() AS `n.x`, 'a''b`' \
                FROM events AS e GROUP BY uuid, event, timestamp";
    let query = ExportQuery::parse(text).unwrap();
    let schema = query.schema();
    let fields = schema["fields"].as_array().unwrap().iter();
    let expected: BTreeSet<&str> = fields
        .map(|field| field["alias"].as_str().unwrap())
        .collect();
    assert_eq!(expected.len(), 6);
    let bytes = database.read(Some(&query), RowForm::JsonLines).await;
    let row: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&bytes).unwrap();
    let found: BTreeSet<&str> = row.keys().map(String::as_str).collect();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn clickhouse_accepts_the_longest_sums_and_deepest_nests() {
    let database = Database::make("large").await;
    database.store(&[Event::nth(0)]);
    let sum = format!("SELECT 1{} AS n FROM events", "+1".repeat(190));
    let any = format!(
        "SELECT uuid FROM events WHERE 1=2{}",
        " OR event = 'seen'".repeat(150)
    );
    let deep = format!(
        "SELECT {}1{} AS n FROM events",
        "(1 - ".repeat(15),
        ")".repeat(15)
    );
    let chain: String = (1..100).map(|n| format!(", a{} AS a{n}", n - 1)).collect();
    let chain = format!("SELECT team_id AS a0{chain} FROM events");
    let equals = format!("SELECT 1{} AS n FROM events", " = 1".repeat(150));
    for text in [sum, any, deep, chain, equals] {
        let query = ExportQuery::parse(&text).unwrap();
        assert!(
            !database
                .read(Some(&query), RowForm::JsonLines)
                .await
                .is_empty(),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_allowed_function_exists_and_has_its_kind() {
    let database = Database::make("functions").await;
    let known = database.run(
        "SELECT name, is_aggregate, case_insensitive, alias_to FROM system.functions FORMAT TSV",
    );
    let mut exact = BTreeMap::new();
    let mut any_case = BTreeMap::new();
    for line in known.lines() {
        let [name, is_aggregate, is_any_case, ..] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        exact.insert(name.to_owned(), is_aggregate == "1");
        if is_any_case == "1" {
            any_case.insert(name.to_lowercase(), is_aggregate == "1");
        }
    }
    for (name, is_aggregate) in functions() {
        // Functions that end in If are combinations of an aggregate function, and are not listed.
        let stem = if is_aggregate {
            name.strip_suffix("If").unwrap_or(name)
        } else {
            name
        };
        let found = exact
            .get(stem)
            .or_else(|| any_case.get(&stem.to_lowercase()));
        assert_eq!(found, Some(&is_aggregate), "{name}");
    }
}
