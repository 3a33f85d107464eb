//! Fields and properties that are given twice: the last one counts, as in serde_json, for the row
//! as for the person, and for who reads the row and takes the first, as ClickHouse does.

use crate::support::{KEY, accepted, context, events, person_updates, row};
use proptest::prelude::*;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use std::fmt;

/// Object as a reader takes it that stops at the first member of a name.
struct FirstWins(Map<String, Value>);

impl<'de> Deserialize<'de> for FirstWins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FirstWinsVisitor)
    }
}

struct FirstWinsVisitor;

impl<'de> Visitor<'de> for FirstWinsVisitor {
    type Value = FirstWins;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FirstWins, A::Error> {
        let mut members = Map::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            members.entry(name).or_insert(value);
        }
        Ok(FirstWins(members))
    }
}

const IDS: [&str; 5] = [r#""x""#, r#""y""#, "7", "null", r#""\u0078""#];
const OBJECTS: [&str; 4] = [r#"{"a":1}"#, r#"{"b":2}"#, "{}", "null"];
const WORDS: [&str; 3] = ["true", "false", "null"];

/// Members of an object in any order and number: names, and what each may be.
fn members(
    table: &'static [(&'static str, &'static [&'static str])],
    most: usize,
) -> impl Strategy<Value = Vec<String>> {
    let member = prop::sample::select(table).prop_flat_map(|(name, values)| {
        prop::sample::select(values).prop_map(move |value| format!("\"{name}\" : {value}"))
    });
    prop::collection::vec(member, 0..most)
}

const PROPERTIES: [(&str, &[&str]); 16] = [
    ("distinct_id", &IDS),
    ("$distinct_id", &IDS),
    ("token", &IDS),
    ("$set", &OBJECTS),
    (r"\u0024set", &OBJECTS),
    ("$set_once", &OBJECTS),
    (
        "$unset",
        &[r#"["p"]"#, r#"["q"]"#, r#"{"q":1}"#, "[]", "null"],
    ),
    ("$ip", &IDS),
    ("$lib", &IDS),
    ("alias", &IDS),
    ("$anon_distinct_id", &IDS),
    ("$group_type", &IDS),
    ("$group_key", &IDS),
    ("$group_set", &OBJECTS),
    ("$process_person_profile", &WORDS),
    ("$geoip_disable", &WORDS),
];

const FIELDS: [(&str, &[&str]); 5] = [
    (
        "event",
        &[
            r#""e""#,
            r#""$identify""#,
            r#""$create_alias""#,
            r#""$groupidentify""#,
        ],
    ),
    ("distinct_id", &IDS),
    ("$set", &OBJECTS),
    ("$set_once", &OBJECTS),
    ("properties", &["null"]),
];

fn body() -> impl Strategy<Value = String> {
    let parts = (
        members(&FIELDS, 6),
        members(&PROPERTIES, 10),
        members(&PROPERTIES, 10),
    );
    parts.prop_map(|(fields, first, second)| {
        let [first, second] = [first, second].map(|members| members.join(", "));
        let fields: String = fields.iter().map(|field| format!(",{field}")).collect();
        format!(
            r#"{{"api_key":"phc_nobody","batch":[{{}}],"api_key":"{KEY}","batch":[{{
            "event":"$identify","distinct_id":"d","properties":{{{first}}}{fields},
            "properties":{{{second}}}}}]}}"#
        )
    })
}

/// Text of an id; `None` if it is none.
fn id(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Value of a field about the person: among the properties, or else beside them.
fn about_person(event: &Value, name: &str) -> Value {
    let within = event["properties"].get(name);
    let value = within.unwrap_or(&event[name]).clone();
    let is_empty =
        value.as_object().is_none_or(Map::is_empty) && value.as_array().is_none_or(Vec::is_empty);
    if is_empty { Value::Null } else { value }
}

/// Update of a person or a group that an event is, as a row of its texts.
fn expected_update(event: &Value, distinct_id: &str) -> Option<Value> {
    let properties = &event["properties"];
    if properties["$process_person_profile"] == false {
        return None;
    }
    let [set, set_once, unset] =
        ["$set", "$set_once", "$unset"].map(|name| about_person(event, name));
    let named = match event["event"].as_str() {
        Some("$identify") => Some("$anon_distinct_id"),
        Some("$create_alias") => Some("alias"),
        _ => None,
    };
    let other = named.and_then(|name| id(&properties[name]));
    let other = other.filter(|other| other != distinct_id);
    let changes = [&set, &set_once, &unset];
    let is_of_person = named.is_some() || changes.iter().any(|it| !it.is_null());
    let group = (event["event"] == "$groupidentify")
        .then(|| {
            Some((
                id(&properties["$group_type"])?,
                id(&properties["$group_key"])?,
            ))
        })
        .flatten();
    if !is_of_person && group.is_none() {
        return None;
    }
    let (group_type, group_key) = group.clone().unwrap_or_default();
    let group_set = match group {
        Some(_) => properties["$group_set"].clone(),
        None => Value::Null,
    };
    let distinct_id = if is_of_person { distinct_id } else { "" };
    Some(json!([
        distinct_id,
        other.unwrap_or_default(),
        set,
        set_once,
        unset,
        group_type,
        group_key,
        group_set
    ]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn all_readers_of_a_body_take_the_last_of_what_is_given_twice(body in body()) {
        let sent: Value = serde_json::from_str(&body).unwrap();
        let sent = &sent["batch"][0];
        let properties = &sent["properties"];
        let parsed = accepted(&body, &context());
        let places = [
            &sent["distinct_id"],
            &properties["distinct_id"],
            &properties["$distinct_id"],
        ];
        let Some(distinct_id) = places.into_iter().find_map(id) else {
            prop_assert_eq!(parsed.report.rejected[0].code, "missing_distinct_id");
            return Ok(());
        };
        let stored = events(&parsed.batch).remove(0);
        prop_assert_eq!(&stored.event, sent["event"].as_str().unwrap());
        prop_assert_eq!(&stored.distinct_id, &distinct_id);
        let FirstWins(found) = serde_json::from_str(&stored.properties).unwrap();
        let last: Map<String, Value> = serde_json::from_str(&stored.properties).unwrap();
        prop_assert_eq!(&found, &last);
        for (name, value) in properties.as_object().unwrap() {
            prop_assert_eq!(&found[name], value, "{}", name);
        }
        let mut updates = person_updates(&parsed.batch);
        let json = |text: &str| match text {
            "" => Value::Null,
            text => serde_json::from_str(text).unwrap(),
        };
        let found = updates.pop().map(|update| {
            json!([
                update.distinct_id,
                update.other_id,
                json(&update.person_set),
                json(&update.person_set_once),
                json(&update.person_unset),
                update.group_type,
                update.group_key,
                json(&update.group_set)
            ])
        });
        prop_assert_eq!(found, expected_update(sent, &distinct_id));
    }
}

#[test]
fn only_properties_that_we_read_are_stored_once() {
    let table = [
        (r#"{"$set":{"a":1},"$set":{"a":2}}"#, r#"{"$set":{"a":2}}"#),
        (
            r#"{"distinct_id":"a","plan":1,"distinct_id":"b"}"#,
            r#"{"plan":1,"distinct_id":"b"}"#,
        ),
        (
            r#"{"$geoip_disable":false,"\u0024geoip_disable":true}"#,
            r#"{"\u0024geoip_disable":true}"#,
        ),
        (r#"{"plan": 1, "plan": 2}"#, r#"{"plan": 1, "plan": 2}"#),
        (r#"{"$ip":1,"a":{"$ip":1}}"#, r#"{"$ip":1,"a":{"$ip":1}}"#),
        (r#"{"a":{"$ip":1,"$ip":2}}"#, r#"{"a":{"$ip":1,"$ip":2}}"#),
    ];
    for (sent, stored) in table {
        let body =
            format!(r#"{{"api_key":"{KEY}","event":"e","distinct_id":"d","properties":{sent}}}"#);
        assert_eq!(row(body, &context()).properties, stored, "{sent}");
    }
    // What is added goes before.
    let body = format!(
        r#"{{"api_key":"{KEY}","event":"e","distinct_id":"d","$set":{{"a":1}},
        "properties":{{"$lib":"a","$lib":"b"}}}}"#
    );
    let expected = r#"{"$set":{"a":1},"$lib":"b"}"#;
    assert_eq!(row(body, &context()).properties, expected);
}
