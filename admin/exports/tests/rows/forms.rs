//! Tests that every form, read back by pyarrow and DuckDB, equals the table.

use crate::fixture::{
    Database, Event, HOUR, START, new_options, scope, sorted_lines, window_query,
};
use millrace_catalog::UtcTime;
use millrace_exports::query::ExportQuery;
use millrace_exports::rows::{ColumnCompression, EventFilter, RowCounter, RowForm, WindowPart};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use uuid::Uuid;

/// Python of the tests' environment; the first caller creates it.
fn python() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap();
    run(&mut Command::new(root.join("deploy/test-python.sh")))
        .trim()
        .into()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Reads a file back by `read_back.py`: each reader's rows, in its order.
fn read_back(how: &str, bytes: &[u8]) -> Value {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rows/read_back.py");
    let out = run(Command::new(python()).arg(script).arg(how).arg(file.path()));
    serde_json::from_str(&out).unwrap()
}

/// Properties as clients send them, odd ones included, all of them JSON.
fn odd_properties() -> Vec<String> {
    let mut all: Vec<String> = [
        "{}",
        "",
        "{ \"a\" : 1 }",
        "{\n  \"lines\": [\n    1,\r\n    2\n  ]\t}\n",
        r#"{"unicode":"é漢😀\u00e9\ud83d\ude00","u2028":"\u2028"}"#,
        r#"{"quotes":"say \"hi\", it's","slash":"a\/b\\c","comma":"a,b;c\td"}"#,
        r#"{"nul":"a\u0000b","control":"\u0001\u001f\b\f\n\r\t"}"#,
        r#"{"lone":"\ud800","swapped":"\udc00\ud800x"}"#,
        r#"{"huge":123456789012345678901234567890,"tiny":1e-400,"more":1.7976931348623157e308,"exact":0.1000000000000000055}"#,
        r#"{"same":1,"same":2,"":"","nested":{"a":[[[]],{}]},"null":null,"true":true}"#,
        r#"{"csv":"\"\",\r\n\"","html":"<b>&amp;</b>","sql":"'); DROP TABLE x; --"}"#,
    ]
    .map(str::to_owned)
    .to_vec();
    all.push(format!("{{\"long\":\"{}\"}}", "é\\n".repeat(250_000)));
    all
}

fn odd_events() -> Vec<Event> {
    let names = [
        "plain",
        "$pageview",
        "",
        "it's",
        "say \"hi\"",
        "a,b",
        "line\nend\r\n",
        "tab\t",
        "nul\0byte",
        "é漢😀",
        "back\\slash",
        "\u{2028}",
        // Formulas, for programs that take them for such.
        "=1+1",
        "+1",
        "-1",
        "@SUM(1)",
    ];
    let properties = odd_properties();
    let rows = names.iter().enumerate().map(|(n, name)| {
        let at = START + n as i64 * 1_000_003;
        Event {
            uuid: Uuid::from_u128(0xffee_0000_1111_2222_3333_4444_5555_0000 + n as u128),
            event: (*name).to_owned(),
            distinct_id: names[names.len() - 1 - n].to_owned(),
            properties: properties[n % properties.len()].clone(),
            timestamp: at - 400 * 24 * HOUR,
            created_at: at,
            historical_migration: n % 2 == 1,
            ..Event::nth(0)
        }
    });
    rows.collect()
}

async fn database(name: &str) -> (Database, Vec<Event>) {
    let database = Database::make(name).await;
    let events = odd_events();
    // One insert for each month.
    for event in &events {
        database.store(std::slice::from_ref(event));
    }
    (database, events)
}

fn time(micros: i64) -> String {
    let at = UtcTime(micros).checked_datetime().unwrap();
    format!("{at:.6}Z")
}

/// Rows that the readers have to find, in the order of their ids.
fn expected(events: &[Event], properties: fn(&str) -> Value) -> Value {
    let row = |event: &Event| {
        json!({
            "uuid": event.uuid.to_string(),
            "event": event.event,
            "distinct_id": event.distinct_id,
            "properties": properties(&event.properties),
            "timestamp": time(event.timestamp),
            "created_at": time(event.created_at),
            "team_id": event.project_id.0,
            "historical_migration": event.historical_migration,
        })
    };
    events.iter().map(row).collect()
}

fn on_one_line(json: &str) -> String {
    if json.is_empty() {
        "{}".to_owned()
    } else {
        json.replace(['\n', '\r'], " ")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columnar_files_equal_the_table() {
    use ColumnCompression::{Brotli, Gzip, Lz4, None, Snappy, Zstd};
    let (database, events) = database("columnar").await;
    let expected = expected(&events, |text| json!(text));
    let forms = [None, Zstd, Lz4, Snappy, Gzip, Brotli].map(RowForm::Parquet);
    let forms = forms
        .into_iter()
        .chain([None, Zstd, Lz4].map(RowForm::Arrow));
    for form in forms {
        let bytes = database.read(Option::None, form).await;
        let (how, codec) = match form {
            RowForm::Parquet(Lz4) => ("parquet", "LZ4".to_owned()),
            RowForm::Parquet(None) => ("parquet", "UNCOMPRESSED".to_owned()),
            RowForm::Parquet(codec) => ("parquet", format!("{codec:?}").to_uppercase()),
            _ => ("arrow", String::new()),
        };
        let found = read_back(how, &bytes);
        let readers = found["readers"].as_object().unwrap();
        assert!(readers.contains_key("pyarrow"), "{form:?}");
        for (reader, rows) in readers {
            assert_eq!(rows, &expected, "{form:?} by {reader}");
        }
        if how == "parquet" {
            assert_eq!(found["codecs"], json!([codec]), "{form:?}");
            assert!(readers.contains_key("duckdb"), "{form:?}");
        }
        let types = json!([
            "string",
            "string",
            "string",
            "string",
            "timestamp[us, tz=UTC]",
            "timestamp[us, tz=UTC]",
            "int64",
            "bool"
        ]);
        assert_eq!(found["types"], types, "{form:?}");
    }
}

/// Blocks and row groups are limited by their bytes, not only by their number of rows.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_megabyte_are_read_within_the_limit_on_memory() {
    let database = Database::make("megabytes").await;
    let name = &database.name;
    for part in 0..8 {
        database.run(&format!(
            "INSERT INTO {name}.events SELECT generateUUIDv4(), 'seen', \
             concat('{{\"a\":\"', repeat(hex(number), 500000), '\"}}'), \
             fromUnixTimestamp64Micro({START}, 'UTC'), 1, 'p', \
             fromUnixTimestamp64Micro({START} + {part}, 'UTC'), 0 FROM numbers(50)"
        ));
    }
    let scope = scope();
    let filter = EventFilter::default();
    let window_query = window_query(&database.clickhouse, &scope, &filter, None);
    let zstd = ColumnCompression::Zstd;
    for form in [
        RowForm::JsonLines,
        RowForm::TableJsonLines,
        RowForm::Csv,
        RowForm::Parquet(zstd),
        RowForm::Arrow(zstd),
    ] {
        let statement = window_query.statement(form, WindowPart::WHOLE).unwrap();
        let options = new_options(&statement);
        assert!(options.memory_bytes_max <= 1 << 30);
        let mut stream = database.clickhouse.read(&statement.sql, &options).unwrap();
        let mut counter = RowCounter::new(form);
        while let Some(piece) = stream
            .next()
            .await
            .unwrap_or_else(|error| panic!("{form:?}: {error}"))
        {
            counter.update(&piece).unwrap();
        }
        assert_eq!(counter.finish(), Ok(400), "{form:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_equals_the_table() {
    let (database, events) = database("csv").await;
    let bytes = database.read(None, RowForm::Csv).await;
    let text = String::from_utf8(bytes.clone()).unwrap();
    let head = "\"uuid\",\"event\",\"distinct_id\",\"properties\",\"timestamp\",\"created_at\",\
                \"team_id\",\"historical_migration\"\r\n";
    assert!(text.starts_with(head), "{text}");
    let found = read_back("csv", &bytes);
    let expected = expected(&events, |text| json!(text));
    for reader in ["python", "pyarrow", "duckdb"] {
        assert_eq!(found["readers"][reader], expected, "{reader}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_lines_have_properties_as_they_were_sent() {
    let (database, events) = database("json_lines").await;
    let bytes = database.read(None, RowForm::JsonLines).await;
    for event in &events {
        let properties = on_one_line(&event.properties);
        let uuid = event.uuid;
        let lines = bytes.split(|byte| *byte == b'\n');
        let line = lines
            .into_iter()
            .find(|line| line.starts_with(format!("{{\"uuid\":\"{uuid}\"").as_bytes()));
        let line = std::str::from_utf8(line.unwrap()).unwrap();
        let (_, rest) = line.split_once("\"properties\":").unwrap();
        let after = rest
            .strip_prefix(properties.as_str())
            .unwrap_or_else(|| panic!("{rest:.1000}"));
        let (at, arrived) = (time(event.timestamp), time(event.created_at));
        let history = event.historical_migration;
        let rest = format!(
            ",\"timestamp\":\"{at}\",\"created_at\":\"{arrived}\",\"team_id\":1,\"historical_migration\":{history}}}"
        );
        assert_eq!(after, rest);
    }
    let found = read_back("jsonl", &bytes);
    // The properties are compared by Python itself, as not every reader takes them.
    let expected = expected(&events, |_| Value::Null);
    assert_eq!(found["readers"]["python"], expected);
    // DuckDB does not read JSON with half of a surrogate pair.
    let rows = events.iter().zip(expected.as_array().unwrap());
    let whole = rows.filter(|(event, _)| !event.properties.contains("\\ud800\""));
    let expected: Value = whole.map(|(_, row)| row.clone()).collect();
    assert_eq!(expected.as_array().unwrap().len(), events.len() - 1);
    assert_eq!(found["readers"]["duckdb"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_for_tables_have_the_tables_columns() {
    let database = Database::make("table_lines").await;
    let properties = [
        (
            r#"{"$ip":"1.2.3.4","$set":{"a":1.50},"$set_once":{"b":[1]},"$elements":[{"tag":"a"}],"x":1}"#,
            json!([{"tag": "a"}]),
            json!({"a": 1.5}),
            json!({"b": [1]}),
            json!("1.2.3.4"),
        ),
        ("{}", Value::Null, Value::Null, Value::Null, Value::Null),
        (
            r#"{"$set":null,"$ip":"","nested":{"$set_once":{"no":1}}}"#,
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
        ),
        (
            "{\"$set\" :\n{\"a\" :\r\n1 } }",
            Value::Null,
            json!({"a": 1}),
            Value::Null,
            Value::Null,
        ),
        // Half of a surrogate pair, which ClickHouse's own parser refuses.
        (
            r#"{"x":"\ud800","$set":{"a":1}}"#,
            Value::Null,
            json!({"a": 1}),
            Value::Null,
            Value::Null,
        ),
        (
            r#"{"note":"\"$set\" and \"$ip\""}"#,
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
        ),
    ];
    let events = properties.iter().enumerate().map(|(n, (text, ..))| Event {
        properties: (*text).to_owned(),
        ..Event::nth(n as u32)
    });
    let events: Vec<Event> = events.collect();
    database.store(&events);
    let bytes = database.read(None, RowForm::TableJsonLines).await;
    let found = read_back("table", &bytes);
    for (event, (text, elements, set, set_once, ip)) in events.iter().zip(&properties) {
        let rows = found["rows"].as_array().unwrap();
        let row = rows
            .iter()
            .find(|row| row["uuid"] == event.uuid.to_string())
            .unwrap();
        let expected = json!({
            "uuid": event.uuid.to_string(), "event": event.event, "properties": on_one_line(text),
            "elements": elements, "set": set, "set_once": set_once, "distinct_id": event.distinct_id,
            "team_id": 1, "ip": ip, "site_url": null, "timestamp": time(event.timestamp),
        });
        assert_eq!(row, &expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_answers_the_same_in_every_form() {
    let database = Database::make("query_forms").await;
    database.store(&(0..50).map(Event::nth).collect::<Vec<_>>());
    let text = "SELECT event, count() AS n, uniq(distinct_id) AS people, min(timestamp) AS first, \
                avg(JSONExtractFloat(properties, 'price')) AS price, nullIf(event, 'seen') AS other \
                FROM events GROUP BY event";
    let query = ExportQuery::parse(text).unwrap();
    let zstd = ColumnCompression::Zstd;
    let lines = database.read(Some(&query), RowForm::JsonLines).await;
    let expected: Vec<Value> = sorted_lines(&lines)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(expected.len(), 3);
    for (form, how) in [
        (RowForm::Parquet(zstd), "parquet"),
        (RowForm::Arrow(zstd), "arrow"),
        (RowForm::TableJsonLines, "lines"),
        (RowForm::Csv, "query_csv"),
    ] {
        let bytes = database.read(Some(&query), form).await;
        let found = read_back(how, &bytes);
        for (reader, rows) in found["readers"].as_object().unwrap() {
            let mut rows = rows.as_array().unwrap().clone();
            rows.sort_by_key(|row| row["event"].to_string());
            assert_eq!(rows, expected, "{form:?} by {reader}");
        }
    }
}
