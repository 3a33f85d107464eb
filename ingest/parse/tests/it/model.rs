//! Model test: the parser against an obvious model of the contract, serde_json's `Value`, event by
//! event.
//!
//! Bodies are generated as text, so that white space, escapes in keys, duplicate keys and the order
//! of members are part of what is tried.

use crate::support::{KEY, context, events, find, parse};
use millrace_parse::{ParseError, Parser};
use proptest::prelude::*;
use serde_json::Value;

/// Some JSON value as text.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,5})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
        string(),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|list| format!("[{}]", list.join(" ,"))),
            prop::collection::vec((string(), inner), 0..4).prop_map(|members| object(&members)),
        ]
    })
}

/// String as JSON text, often one that matters to the contract.
fn string() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(r#""""#.to_owned()),
        Just(r#"" a ""#.to_owned()),
        Just(r#""undefined""#.to_owned()),
        Just(r#""2026-11-20T15:38:18Z""#.to_owned()),
        Just(r#""01a1f99b-b499-70c4-9505-90a47f19f05a""#.to_owned()),
        Just(r#""\\\"\/\u0041\n""#.to_owned()),
        Just(r#""\u0000""#.to_owned()),
        Just(r#""\ud83d\ude00]}""#.to_owned()),
        "[ -!#-\\[\\]-~é😀]{0,40}".prop_map(|text| format!("\"{text}\"")),
    ]
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<_> = members
        .iter()
        .map(|(key, value)| format!("{key} : {value}"))
        .collect();
    format!("{{{}}}", members.join(",\n"))
}

fn event() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        r#""event""#,
        r#""distinct_id""#,
        r#""$distinct_id""#,
        r#""timestamp""#,
        r#""uuid""#,
        r#""properties""#,
        r#""$set""#,
        r#""$groups""#,
        r#""\u0065vent""#,
        r#""x""#,
    ]);
    let properties = prop::collection::vec(
        (
            prop::sample::select(vec![
                r#""distinct_id""#,
                r#""$distinct_id""#,
                r#""token""#,
                r#""a""#,
                r#""$ip""#,
            ]),
            json(),
        ),
        0..4,
    );
    let usual = (string(), string(), properties).prop_map(|(event, id, properties)| {
        let properties: Vec<_> = properties
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v))
            .collect();
        vec![
            (r#""event""#.to_owned(), event),
            (r#""distinct_id""#.to_owned(), id),
            (r#""properties""#.to_owned(), object(&properties)),
        ]
    });
    let odd = prop::collection::vec((key.prop_map(str::to_owned), json()), 0..3);
    prop_oneof![
        8 => (usual, odd).prop_map(|(usual, odd)| object(&[usual, odd].concat())),
        1 => json(),
    ]
}

fn body() -> impl Strategy<Value = String> {
    let list =
        prop::collection::vec(event(), 1..6).prop_map(|list| format!("[{}]", list.join(", ")));
    (list, any::<bool>()).prop_map(|(list, first)| {
        if first {
            format!(r#" {{"token":"{KEY}" ,"batch" : {list}}} "#)
        } else {
            format!(r#"{{"batch":{list},"x":[{{"batch":1}}],"token":"{KEY}"}}"#)
        }
    })
}

/// Trimmed text of a name, or the end of the code it breaks.
fn name(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::Null => Err("missing"),
        Value::String(text) if text.trim().is_empty() => Err("missing"),
        Value::String(text) if text.contains('\0') => Err("invalid"),
        Value::String(text) if text.trim().chars().count() > 200 => Err("long"),
        Value::String(text) => Ok(text.trim().to_owned()),
        _ => Err("invalid"),
    }
}

/// Expected name and id of one event, or the code with which it is refused.
fn expected(event: &Value) -> Result<(String, String), String> {
    if !event.is_object() {
        return Err("invalid_event".to_owned());
    }
    let event_name = name(&event["event"]).map_err(|problem| match problem {
        "long" => "event_name_too_long".to_owned(),
        problem => format!("{problem}_event"),
    })?;
    let properties = &event["properties"];
    let places = [
        &event["distinct_id"],
        &event["$distinct_id"],
        &properties["distinct_id"],
        &properties["$distinct_id"],
    ];
    let id = places
        .into_iter()
        .find(|place| !place.is_null())
        .unwrap_or(&Value::Null);
    let id = match id {
        Value::Number(_) => Ok("a number".to_owned()),
        id => name(id).map_err(|problem| match problem {
            "long" => "distinct_id_too_long".to_owned(),
            problem => format!("{problem}_distinct_id"),
        }),
    }?;
    match &event["timestamp"] {
        Value::Null => {}
        Value::String(text) if text.trim().is_empty() || text == "2026-11-20T15:38:18Z" => {}
        _ => return Err("invalid_timestamp".to_owned()),
    }
    match &event["uuid"] {
        Value::Null => {}
        Value::String(text) if text.trim().is_empty() || text.starts_with("01a1f99b-b499") => {}
        _ => return Err("invalid_uuid".to_owned()),
    }
    let objects = [properties, &event["$set"], &event["$groups"]];
    if objects
        .iter()
        .any(|value| !value.is_null() && !value.is_object())
    {
        return Err("invalid_properties".to_owned());
    }
    Ok((event_name, id))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_event_is_validated_as_the_model_does(body in body()) {
        let value: Value = serde_json::from_str(&body).unwrap();
        let sent = value["batch"].as_array().unwrap();
        let parsed = parse(&body, &context()).unwrap();
        let rows = events(&parsed.batch);
        let mut stored = rows.iter();
        let mut refused = parsed.report.rejected.iter();
        for (event, index) in sent.iter().zip(0..) {
            match expected(event) {
                Ok((name, id)) => {
                    let row = stored.next().unwrap();
                    prop_assert_eq!(&row.event, &name);
                    prop_assert!(row.distinct_id == id || id == "a number");
                    let properties: Value = serde_json::from_str(&row.properties).unwrap();
                    if let Some(sent) = event["properties"].as_object() {
                        for (key, value) in sent {
                            prop_assert_eq!(&properties[key], value);
                        }
                    }
                    if event["$set"].is_object() && event["properties"]["$set"].is_null() {
                        prop_assert_eq!(&properties["$set"], &event["$set"]);
                    }
                }
                Err(code) => {
                    let rejection = refused.next().unwrap();
                    prop_assert_eq!((rejection.index, rejection.code), (index, code.as_str()));
                }
            }
        }
        prop_assert_eq!((stored.count(), refused.count()), (0, 0));
    }

    #[test]
    fn mutated_bodies_never_panic_and_never_touch_the_body(
        body in body(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..4),
    ) {
        let mut bytes = body.into_bytes();
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let result = Parser::default().parse(&bytes, &context(), &mut find);
        if let Err(ParseError::Refused(error)) = result {
            prop_assert!(error.status.is_client_error());
        }
    }

    #[test]
    fn no_bytes_make_the_body_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Parser::default().parse(&bytes, &context(), &mut find);
    }
}
