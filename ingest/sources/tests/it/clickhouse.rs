//! Mapping of rows of an events table.

use crate::support::{Mapped, map, refusal};
use millrace_sources::{Format, Options};
use serde_json::{Value, json};

const UUID: &str = "0191f99b-b499-70c4-9505-90a47f19f05a";

fn row(columns: Value) -> Value {
    let mut row = json!({
        "uuid": UUID, "event": "$pageview", "properties": r#"{"a": 1.50, "$lib": "web"}"#,
        "timestamp": "2023-10-15 14:30:00.123456", "team_id": 2, "distinct_id": "user-1", "elements_chain": "",
        "created_at": "2023-10-15 14:30:01", "person_id": UUID, "person_properties": "{}"});
    row.as_object_mut()
        .unwrap()
        .extend(columns.as_object().unwrap().clone());
    row
}

fn mapped(columns: Value) -> Mapped {
    map(Format::Clickhouse, &Options::default(), &row(columns))
}

#[test]
fn a_row_becomes_the_original_event() {
    let expected = json!({
        "event": "$pageview", "distinct_id": "user-1", "timestamp": "2023-10-15T14:30:00.123456Z", "uuid": UUID,
        "properties": {"a": 1.5, "$lib": "web", "analytics_source": "clickhouse", "$geoip_disable": true},
    });
    assert_eq!(*mapped(json!({})).one(), expected);
    let object = mapped(json!({"properties": {"a": 1.5, "$lib": "web"}}));
    assert_eq!(*object.one(), expected);
    let chain = mapped(json!({"properties": "", "elements_chain": "a:href=\"x\""}));
    assert_eq!(
        Value::Object(chain.properties()),
        json!({"$elements_chain": "a:href=\"x\""})
    );
}

#[test]
fn missing_or_invalid_fields_are_refused() {
    let table = [
        (json!({"event": ""}), "missing_event", "event"),
        (json!({"timestamp": null}), "missing_timestamp", "timestamp"),
        (json!({"timestamp": "x"}), "invalid_timestamp", "timestamp"),
        (
            json!({"distinct_id": ""}),
            "missing_distinct_id",
            "distinct_id",
        ),
        (json!({"uuid": "x"}), "invalid_uuid", "uuid"),
        (json!({"properties": "[1]"}), "invalid_record", "properties"),
        (json!({"properties": "{"}), "invalid_json", "properties"),
        (
            json!({"properties": [1]}),
            "invalid_properties",
            "properties",
        ),
    ];
    for (columns, code, field) in table {
        let refused = refusal(Format::Clickhouse, &Options::default(), &row(columns));
        assert_eq!(refused, (code, Some(field.to_owned())));
    }
}
