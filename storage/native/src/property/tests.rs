//! Values of property columns, against a JSON library, and as columns of a block.

use super::PropertyPlan;
use crate::NativeBlock;
use crate::testing::{DecodedBlock, PropertyValue, decode};
use crate::tests::{bytes_of, encoded, numbered};
use millrace_rows::testing::Event;
use millrace_rows::{ProjectId, PropertyColumn, PropertyType, Table};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Longest text of the tests' columns, in bytes.
const BYTES_MAX: usize = 12;

fn column(number: i64, team_id: Option<i64>, path: &[&str], kind: PropertyType) -> PropertyColumn {
    PropertyColumn {
        number,
        team_id: team_id.map(ProjectId),
        path: path.iter().map(|key| (*key).to_owned()).collect(),
        kind,
        bytes_max: BYTES_MAX as u32,
    }
}

/// Columns of all types for a path.
fn of_all_types(path: &[&str]) -> Vec<PropertyColumn> {
    let kinds = PropertyType::ALL.into_iter().zip(0..);
    kinds
        .map(|(kind, number)| column(number, None, path, kind))
        .collect()
}

fn decoded(events: &[Event], columns: Vec<PropertyColumn>) -> DecodedBlock {
    let (rows, plan) = (encoded(events), PropertyPlan::new(columns));
    let target = Table::Events.insert_target();
    let block = NativeBlock::with_properties(target, rows.as_slice(), &plan).unwrap();
    let decoded = decode(&bytes_of(&block));
    let names: BTreeSet<&str> = block.property_names().collect();
    assert!(names.into_iter().eq(decoded.properties.keys()));
    decoded
}

/// Events with these properties, in the order of a block.
fn with_properties(properties: &[&str]) -> Vec<Event> {
    let mut events = numbered(properties.len() as u64, 2);
    for ((event, text), place) in events.iter_mut().zip(properties).zip(0..) {
        event.properties = (*text).to_owned();
        event.team_id = 1;
        event.event = format!("{place:04}");
    }
    events
}

/// Values of columns of all types for a path, in one event.
fn values(text: &str, path: &[&str]) -> Vec<PropertyValue> {
    let block = decoded(&with_properties(&[text]), of_all_types(path));
    block
        .properties
        .into_values()
        .map(|mut it| it.remove(0))
        .collect()
}

/// Values by the JSON library. Its numbers are texts of JSON again, as in the event.
fn expected(found: Option<&Value>) -> Vec<PropertyValue> {
    use PropertyValue::{Flag, Null, Real, Text, Whole};
    let text = found.and_then(Value::as_str).unwrap_or_default();
    let text = if text.len() > BYTES_MAX { "" } else { text };
    let number = found.and_then(|value| match value {
        Value::Number(number) => Some(number),
        _ => None,
    });
    vec![
        Text(text.to_owned()),
        Text(text.to_owned()),
        number.and_then(|it| it.as_i64()).map_or(Null, Whole),
        number
            .and_then(|it| it.as_f64())
            .map_or(Null, |it| Real(it.to_bits())),
        found.and_then(Value::as_bool).map_or(Null, Flag),
        Null,
    ]
}

/// Looks a path up; of a key that an object has twice the library keeps the last.
fn look_up<'a>(document: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter()
        .try_fold(document, |value, key| value.as_object()?.get(*key))
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]", "\\PC{0,6}", "[\"\\\\\n\u{1}$]{1,2}"]
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "\\PC{0,16}".prop_map(Value::from),
        "[\"\\\\/\u{8}\n\u{0}\u{1f600}]{0,6}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..4)
                .prop_map(|fields| Value::from(fields.into_iter().collect::<Map<_, _>>())),
        ]
    });
    let fields = prop::collection::vec((key(), value), 0..6);
    fields.prop_map(|fields| Value::from(fields.into_iter().collect::<Map<_, _>>()))
}

/// Writes every letter of a JSON text's strings that may be an escape as one.
fn escaped(json: &str) -> String {
    let (mut out, mut is_string, mut letters) = (String::new(), false, json.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '"' => is_string = !is_string,
            '\\' => {
                let kind = letters.next();
                out.push(letter);
                out.extend(kind);
                if kind == Some('u') {
                    out.extend(letters.by_ref().take(4));
                }
                continue;
            }
            _ if is_string => {
                for half in letter.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{half:04X}"));
                }
                continue;
            }
            _ => {}
        }
        out.push(letter);
    }
    out
}

proptest! {
    #[test]
    fn values_are_those_of_a_json_library(
        document in document(),
        path in prop::collection::vec(key(), 1..4),
    ) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let expected = expected(look_up(&document, &path));
        let plain = document.to_string();
        for text in [
            serde_json::to_string_pretty(&document).unwrap(),
            escaped(&plain),
            plain,
        ] {
            prop_assert_eq!(&values(&text, &path), &expected, "{}", text);
        }
    }

    #[test]
    fn values_at_paths_of_a_document_are_found(document in document(), choice in any::<u64>()) {
        // A path that leads somewhere, as keys at random seldom do.
        let (mut path, mut at, mut choice) = (Vec::new(), &document, choice);
        while let Some(fields) = at.as_object().filter(|fields| !fields.is_empty()) {
            let nth = choice as usize % fields.len();
            choice /= 5;
            let (name, value) = fields.iter().nth(nth).unwrap();
            path.push(name.as_str());
            at = value;
            if choice.is_multiple_of(3) {
                break;
            }
        }
        prop_assume!(!path.is_empty());
        prop_assert_eq!(values(&document.to_string(), &path), expected(Some(at)));
    }

    #[test]
    fn damaged_texts_are_read_as_far_as_they_are_json(
        document in document(),
        path in prop::collection::vec(key(), 1..3),
        changes in prop::collection::vec((any::<prop::sample::Index>(), "\\PC"), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut text: Vec<char> = document.to_string().chars().collect();
        for (at, letter) in changes {
            let at = at.index(text.len());
            text[at] = letter.chars().next().unwrap();
        }
        text.truncate(cut.index(text.len()) + 1);
        let text: String = text.into_iter().collect();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        prop_assert_eq!(values(&text, &path).len(), 6);
    }
}

#[test]
fn the_first_of_two_equal_keys_counts() {
    let table = [
        (r#"{"a":1,"a":2}"#, Some(1)),
        (r#"{"a":"x","a":2}"#, None),
        (r#"{"\u0061":1,"a":2}"#, Some(1)),
        (r#"{"b":{"a":3},"a":1}"#, Some(1)),
        (r#"{"b":[{"a":3}],"c":"\"a\":3","a":1}"#, Some(1)),
        (" {\n\t\"a\" : 1 } ", Some(1)),
        (r#"{"a":1"#, Some(1)),
        (r#"{"a":"#, None),
        (r#"["a",1]"#, None),
        ("", None),
    ];
    for (text, expected) in table {
        let expected = expected.map_or(PropertyValue::Null, PropertyValue::Whole);
        assert_eq!(values(text, &["a"])[2], expected, "{text}");
    }
    for text in [
        r#"{"a":{"x":1},"a":{"b":2}}"#,
        r#"{"a":7,"a":{"b":2}}"#,
        r#"{"a":[{"b":2}]}"#,
    ] {
        assert_eq!(values(text, &["a", "b"])[2], PropertyValue::Null, "{text}");
    }
}

#[test]
fn paths_with_a_common_beginning_are_found_in_one_pass() {
    let text = r#"{"a":{"c":{"d":3},"b":2,"x":0},"e":{},"b":4}"#;
    let paths: [&[&str]; 6] = [
        &["a", "b"],
        &["a", "c", "d"],
        &["b"],
        &["e", "b"],
        &["a"],
        &["a", "c", "d", "e"],
    ];
    let columns = paths.iter().zip(0..);
    let columns = columns.map(|(path, number)| column(number, Some(1), path, PropertyType::Int64));
    let block = decoded(&with_properties(&[text]), columns.collect());
    let found: Vec<PropertyValue> = block.properties.into_values().flatten().collect();
    let expected = [Some(2), Some(3), Some(4), None, None, None];
    let expected = expected.map(|it| it.map_or(PropertyValue::Null, PropertyValue::Whole));
    assert_eq!(found, expected);
}

#[test]
fn times_are_texts_of_their_form() {
    let table = [
        (
            r#"{"a":"2026-11-20T00:00:00Z"}"#,
            Some(1_795_132_800_000_000),
        ),
        (
            r#"{"a":"2026-11-20T00:00:00\u005a"}"#,
            Some(1_795_132_800_000_000),
        ),
        (r#"{"a":"2026-11-20"}"#, None),
        (r#"{"a":1795132800}"#, None),
    ];
    for (text, expected) in table {
        let expected = expected.map_or(PropertyValue::Null, PropertyValue::Whole);
        assert_eq!(values(text, &["a"])[5], expected, "{text}");
    }
}

#[test]
fn a_column_has_values_of_its_own_project_and_is_there_with_its_rows() {
    let mut events = with_properties(&[r#"{"a":"x"}"#; 6]);
    for (event, team_id) in events.iter_mut().zip([1, 2, 1, 3, 2, 3]) {
        event.team_id = team_id;
    }
    let text = |number, team_id| column(number, team_id, &["a"], PropertyType::LowCardinality);
    let columns = vec![
        text(1, Some(2)),
        text(2, None),
        text(3, Some(4)),
        text(4, Some(3)),
    ];
    let block = decoded(&events, columns);
    let found: Vec<(&str, String)> = block
        .properties
        .iter()
        .map(|(name, values)| {
            let texts = values.iter().map(|value| match value {
                PropertyValue::Text(text) if text.is_empty() => ".",
                _ => "x",
            });
            (name.as_str(), texts.collect())
        })
        .collect();
    // Sorted by project: 1, 1, 2, 2, 3, 3.
    let expected = [
        ("property_1", "..xx..".to_owned()),
        ("property_2", "xxxxxx".to_owned()),
        ("property_4", "....xx".to_owned()),
    ];
    assert_eq!(found, expected);
    let teams: Vec<i64> = block.events.iter().map(|event| event.team_id).collect();
    assert_eq!(teams, [1, 1, 2, 2, 3, 3]);
}

#[test]
fn values_are_in_the_order_of_the_block() {
    let mut events = numbered(3_000, 2);
    for (event, number) in events.iter_mut().zip(0..) {
        let text = if number % 7 == 0 { "\\u00e4" } else { "a" };
        event.properties = match number % 3 {
            0 => format!("{{\"n\":{number},\"t\":\"{text}{}\"}}", number % 1_000),
            1 => format!("{{\"n\":\"no\",\"t\":\"{}\"}}", "long".repeat(9)),
            _ => "{}".to_owned(),
        };
    }
    let columns = [
        PropertyType::Int64,
        PropertyType::String,
        PropertyType::LowCardinality,
    ];
    let keys = ["n", "t", "t"];
    let columns = columns.into_iter().zip(keys).zip(0..);
    let columns = columns.map(|((kind, key), number)| column(number, None, &[key], kind));
    let block = decoded(&events, columns.collect());
    for (nth, event) in block.events.iter().enumerate() {
        let document: Value = serde_json::from_str(&event.properties).unwrap();
        let number = expected(document.get("n")).remove(2);
        let text = expected(document.get("t")).remove(0);
        let found = ["property_0", "property_1", "property_2"].map(|it| &block.properties[it][nth]);
        assert_eq!(found, [&number, &text, &text], "{}", event.properties);
    }
}

#[test]
fn a_column_with_too_many_texts_for_a_dictionary_is_left_to_the_server() {
    let texts: Vec<String> = (0..70_000)
        .map(|number| format!("{{\"a\":\"{number}\"}}"))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let columns = vec![
        column(1, None, &["a"], PropertyType::LowCardinality),
        column(2, None, &["a"], PropertyType::String),
    ];
    let mut events = with_properties(&texts);
    for event in &mut events {
        event.event = "e".to_owned();
    }
    let block = decoded(&events, columns);
    let names: Vec<&String> = block.properties.keys().collect();
    assert_eq!(names, ["property_2"]);
}

#[test]
fn rows_without_properties_have_no_property_columns() {
    let target = "events(team_id,distinct_id,event,timestamp,uuid)";
    let mut rows = 1_i64.to_le_bytes().to_vec();
    rows.extend_from_slice(&[1, b'd', 1, b'e']);
    rows.extend_from_slice(&[0; 24]);
    let plan = PropertyPlan::new(vec![column(1, None, &["a"], PropertyType::Bool)]);
    let block = NativeBlock::with_properties(target, rows.as_slice(), &plan).unwrap();
    assert_eq!(block.property_names().count(), 0);
}
