//! Property columns that come with a native block have the values that ClickHouse computes of
//! `properties` for rows that come without.

use crate::fixture::{Database, NOVEMBER};
use crate::project_queries::views;
use bytes::Bytes;
use millrace_clickhouse::{Body, BodyFormat, Insert, InsertError};
use millrace_native::{NativeBlock, PropertyPlan};
use millrace_rows::{EventRow, Micros, ProjectId, PropertyColumn, PropertyType, Table};
use uuid::Uuid;

/// Values of a property, as JSON.
const VALUES: [&str; 56] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "-1",
    "1.0",
    "1e2",
    "1E-2",
    "-0.0",
    "0.1",
    "1.7976931348623157e308",
    "5e-324",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "\"\"",
    "\"a\"",
    "\"12345678\"",
    "\"123456789\"",
    "\"\\u00e4\\u00f6\\u00fc\\u00df\"",
    "\"\\u00e4\\u00f6\\u00fc\\u00df!\"",
    "\"\\ud83d\\ude00\"",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    "\"\\u0000\"",
    "\"a'b`\"",
    "\"true\"",
    "\"1\"",
    "[]",
    "[1]",
    "[\"a\",{\"b\":\"c\"}]",
    "{}",
    "{\"b\":\"c\"}",
    "{\"b\":1,\"b\":2}",
    "{\"b\":{\"b\":1}}",
    "{\"b\":true}",
    "{\"b\":\"2026-11-29T10:00:00Z\"}",
    "{\"c\":[{\"b\":1}],\"b\":-7}",
    "\"2026-11-29T10:00:00Z\"",
    "\"2026-11-29T10:00:00.1+00:00\"",
    "\"2026-11-29T10:00:00.123456-11:30\"",
    "\"2026-11-29T10:00:00.123456789+14:00\"",
    "\"2026-11-29T23:59:59.999999999Z\"",
    "\"1971-01-01T00:00:00+23:59\"",
    "\"2298-12-31T23:59:59.999999-23:59\"",
    "\"2000-02-29T00:00:00Z\"",
    "\"2100-02-29T00:00:00Z\"",
    "\"2026-04-31T00:00:00Z\"",
    "\"1970-12-31T23:59:59Z\"",
    "\"2026-11-29T10:00:00\"",
    "\"2026-11-29 10:00:00Z\"",
    "\"2026-11-29\"",
    "\"2026-11-29T10:00:00\\u005a\"",
];

/// Body of a block with property columns.
struct FilledBody {
    pieces: Vec<Bytes>,
    more_columns: String,
}

impl Body for FilledBody {
    fn format(&self) -> BodyFormat {
        BodyFormat::Native {
            is_compressed: false,
            keys_differ: true,
        }
    }

    fn more_columns(&self) -> &str {
        &self.more_columns
    }

    fn len_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }

    async fn piece(&self, index: usize) -> Result<Option<Vec<Bytes>>, InsertError> {
        Ok(self.pieces.get(index).map(|piece| vec![piece.clone()]))
    }
}

/// Columns of `a` and of `b` in it, of all types, of project 1 and of all.
fn columns() -> Vec<PropertyColumn> {
    let paths: [&[&str]; 2] = [&["a"], &["a", "b"]];
    let owners = [Some(ProjectId(1)), None];
    let mut columns = Vec::new();
    for (path, team_id) in paths.into_iter().zip(owners) {
        for kind in PropertyType::ALL {
            columns.push(PropertyColumn {
                number: columns.len() as i64 + 1,
                team_id,
                path: path.iter().map(|key| (*key).to_owned()).collect(),
                kind,
                bytes_max: if kind.is_text() { 8 } else { 0 },
            });
        }
    }
    columns
}

/// Events of projects 1 and 2 with each value, in several forms of their text.
fn rows() -> Vec<u8> {
    let mut rows = Vec::new();
    let mut id = 0;
    for value in VALUES {
        for (text, team_id) in [
            (format!("{{\"a\":{value}}}"), 1),
            (
                format!("{{\"x\":[\"a\"],\"a\":{value},\"a\":1,\"z\":{{}}}}"),
                1,
            ),
            (format!(" {{\n\t\"\\u0061\" : {value} , \"b\": 2 }} "), 1),
            (format!("{{\"a\":{value}}}"), 2),
            (format!("{{\"b\":{value}}}"), 1),
        ] {
            id += 1;
            let row = EventRow {
                uuid: Uuid::from_u128(id),
                event: b"seen",
                properties: &[text.as_bytes()],
                timestamp: Micros(NOVEMBER),
                team_id: ProjectId(team_id),
                distinct_id: b"somebody",
                created_at: Micros(NOVEMBER),
                historical_migration: false,
            };
            row.append_to(&mut rows);
        }
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_has_the_same_values_whoever_computes_them() {
    let (columns, rows) = (columns(), rows());
    let names: Vec<String> = columns.iter().map(PropertyColumn::name).collect();
    let select = format!(
        "SELECT toString(tuple(properties, team_id, {})) FROM {{db}}.events ORDER BY uuid",
        names.join(", "),
    );
    let mut found = Vec::new();
    for name in ["filled_by_default", "filled_by_block", "filled_later"] {
        let database = Database::make(name).await;
        let clickhouse = &database.clickhouse;
        if name == "filled_later" {
            database.insert("rows", &rows).await.unwrap();
        }
        let synced = clickhouse.sync_property_columns(&columns, &views()).await;
        assert!(synced.unwrap());
        if name == "filled_by_default" {
            database.insert("rows", &rows).await.unwrap();
        }
        if name == "filled_by_block" {
            let (target, plan) = (
                Table::Events.insert_target(),
                PropertyPlan::new(columns.clone()),
            );
            let block = NativeBlock::with_properties(target, rows.as_slice(), &plan).unwrap();
            assert_eq!(block.property_names().count(), columns.len());
            let pieces = (0..).map_while(|nth| block.piece(nth));
            let body = FilledBody {
                pieces: pieces.map(Bytes::from).collect(),
                more_columns: block.property_names().collect::<Vec<_>>().join(","),
            };
            let insert = Insert {
                insert_target: target,
                token: "block",
                body: &body,
            };
            clickhouse.insert(&insert).await.unwrap();
        }
        found.push((name, database.texts(&select).await));
    }
    let (_, expected) = &found[0];
    assert_eq!(expected.len(), 5 * VALUES.len());
    for (name, values) in &found[1..] {
        for (value, expected) in values.iter().zip(expected) {
            assert_eq!(value, expected, "{name}");
        }
    }
    // Not all of them are empty.
    let count = format!(
        "SELECT toUInt64(sum(isNotNull({}))) FROM {{db}}.events",
        names[2]
    );
    let database = Database::make("filled_counted").await;
    let clickhouse = &database.clickhouse;
    let synced = clickhouse.sync_property_columns(&columns, &views()).await;
    assert!(synced.unwrap());
    database.insert("rows", &rows).await.unwrap();
    assert!(database.number(&count).await > 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_with_a_column_that_is_not_there_is_refused_with_its_code() {
    let database = Database::make("filled_unknown").await;
    let body = FilledBody {
        pieces: vec![Bytes::from_static(b"not read")],
        more_columns: "property_1".to_owned(),
    };
    let insert = Insert {
        insert_target: Table::Events.insert_target(),
        token: "block",
        body: &body,
    };
    let refused = database.clickhouse.insert(&insert).await.unwrap_err();
    assert!(refused.is_of_a_column(), "{refused:?}");
    assert_eq!(database.events().await, 0);
}
