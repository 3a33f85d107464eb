//! Updates of persons and groups by events.

use crate::support::{KEY, NOW, PROJECT, REQUEST, accepted, context, person_updates};
use millrace_parse::Protocol;
use millrace_rows::testing::PersonUpdate;
use millrace_rows::{Micros, PERSON_PROPERTIES_BYTES_MAX, PROPERTY_BYTES_BESIDE};
use uuid::Uuid;

const UUID: &str = "0191f99b-b499-70c4-9505-90a47f19f05a";

/// Update by one event, of this name, id, properties and further fields.
fn update_of(
    event: &str,
    distinct_id: &str,
    properties: &str,
    fields: &str,
) -> Option<PersonUpdate> {
    let body = format!(
        r#"{{"api_key":"{KEY}","batch":[{{"event":"x","distinct_id":"x"}},
        {{"event":"{event}","distinct_id":"{distinct_id}","uuid":"{UUID}",
        "timestamp":"1970-01-01T00:00:05Z","properties":{properties}{fields}}}]}}"#
    );
    let parsed = accepted(body, &context());
    assert_eq!(parsed.accepted, 2, "{:?}", parsed.report);
    let mut rows = person_updates(&parsed.batch);
    assert!(rows.len() <= 1);
    rows.pop()
}

fn row() -> PersonUpdate {
    PersonUpdate {
        team_id: PROJECT.0,
        created_at: NOW,
        request_id: REQUEST.to_string(),
        index: 1,
        uuid: Uuid::parse_str(UUID).unwrap(),
        timestamp: Micros(5_000_000),
        kind: "properties".to_owned(),
        ..PersonUpdate::default()
    }
}

#[test]
fn properties_of_persons_are_taken_as_they_were_sent() {
    let properties = r#"{"$set":{"a": 1e400},"b":1,"$set_once":{"c":"\ud800"},"$unset":["d"]}"#;
    let expected = PersonUpdate {
        distinct_id: "d".to_owned(),
        person_set: r#"{"a": 1e400}"#.to_owned(),
        person_set_once: r#"{"c":"\ud800"}"#.to_owned(),
        person_unset: r#"["d"]"#.to_owned(),
        ..row()
    };
    assert_eq!(update_of("e", "d", properties, ""), Some(expected));
}

#[test]
fn fields_beside_the_properties_count_unless_the_properties_have_them() {
    let beside = r#","$set":{"a":1},"$set_once":{"b":1},"$unset":{"c":1}"#;
    let table = [
        ("{}", [r#"{"a":1}"#, r#"{"b":1}"#, r#"{"c":1}"#]),
        (
            r#"{"$set":{"a":2},"\u0024unset":["e"]}"#,
            [r#"{"a":2}"#, r#"{"b":1}"#, r#"["e"]"#],
        ),
        (r#"{"$set":7,"$set_once":null}"#, ["", "", r#"{"c":1}"#]),
    ];
    for (properties, expected) in table {
        let row = update_of("e", "d", properties, beside).unwrap();
        let found = [row.person_set, row.person_set_once, row.person_unset];
        assert_eq!(found, expected, "{properties}");
    }
}

#[test]
fn events_without_usable_person_properties_update_nothing() {
    let table = [
        (
            "$pageview",
            "d",
            r#"{"a":{"$set":{"b":1}},"$groups":{"g":"k"}}"#,
        ),
        ("e", "d", r#"{"$set":{},"$set_once":{},"$unset":[]}"#),
        ("e", "d", r#"{"$set":"a","$set_once":[1],"$unset":"c"}"#),
        ("e", "undefined", r#"{"$set":{"a":1}}"#),
        ("$identify", "0", r#"{"$anon_distinct_id":"a"}"#),
        ("$exception", "d", r#"{"$set":{"a":1}}"#),
        ("$$heatmap", "d", r#"{"$set":{"a":1}}"#),
        (
            "e",
            "d",
            r#"{"$set":{"a":1},"$process_person_profile":false}"#,
        ),
        (
            "$identify",
            "d",
            r#"{"$anon_distinct_id":"a","$process_person_profile":false}"#,
        ),
        ("$groupidentify", "d", r#"{"$group_type":"t"}"#),
        (
            "$groupidentify",
            "d",
            r#"{"$group_type":"","$group_key":"k"}"#,
        ),
        (
            "$groupidentify",
            "d",
            r#"{"$group_type":"t","$group_key":"k","$group_set":[]}"#,
        ),
    ];
    for (event, distinct_id, properties) in table {
        assert_eq!(
            update_of(event, distinct_id, properties, ""),
            None,
            "{event} {properties}"
        );
    }
    let long = format!(
        r#"{{"$group_type":"t","$group_key":"{}"}}"#,
        "k".repeat(401)
    );
    assert_eq!(update_of("$groupidentify", "d", &long, ""), None);
}

#[test]
fn only_false_keeps_persons_out() {
    for value in ["true", "null", r#""false""#, "0"] {
        let properties = format!(r#"{{"$set":{{"a":1}},"$process_person_profile":{value}}}"#);
        assert!(update_of("e", "d", &properties, "").is_some(), "{value}");
    }
}

/// Merge: event, properties, kind, other id.
const MERGES: &[[&str; 4]] = &[
    [
        "$identify",
        r#"{"$anon_distinct_id":" a "}"#,
        "identify",
        "a",
    ],
    [
        "$identify",
        r#"{"\ud800":1,"$anon_distinct_id":12}"#,
        "identify",
        "12",
    ],
    [
        "$identify",
        r#"{"$anon_distinct_id":"x","$anon_distinct_id":"y"}"#,
        "identify",
        "y",
    ],
    ["$create_alias", r#"{"alias":"\u0061"}"#, "alias", "a"],
    ["$merge_dangerously", r#"{"alias":"a"}"#, "merge", "a"],
    // Without another id that may be somebody's, an `$identify` names its user, and the others only
    // say that the person is there.
    ["$identify", "{}", "identify", ""],
    ["$identify", r#"{"$anon_distinct_id":"d"}"#, "identify", ""],
    ["$identify", r#"{"$anon_distinct_id":null}"#, "identify", ""],
    [
        "$identify",
        r#"{"$anon_distinct_id":"Guest"}"#,
        "identify",
        "",
    ],
    [
        "$identify",
        r#"{"$anon_distinct_id":"'null'"}"#,
        "identify",
        "",
    ],
    ["$create_alias", r#"{"alias":"d"}"#, "properties", ""],
    [
        "$create_alias",
        r#"{"alias":"\"undefined\""}"#,
        "properties",
        "",
    ],
    ["$create_alias", r#"{"alias":"\"\""}"#, "properties", ""],
    ["$create_alias", r#"{"alias":"a\u0000"}"#, "properties", ""],
    ["$create_alias", r#"{"alias":["a"]}"#, "properties", ""],
    ["$create_alias", r#"{"alias":-0.00}"#, "properties", ""],
    ["$create_alias", r#"{"alias":0e5}"#, "properties", ""],
    ["$create_alias", r#"{"alias":"0.00"}"#, "properties", ""],
    ["$create_alias", r#"{"alias":"0e5"}"#, "alias", "0e5"],
    [
        "$merge_dangerously",
        r#"{"alias":"\ud800"}"#,
        "properties",
        "",
    ],
];

#[test]
fn merges_name_the_other_id() {
    for [event, properties, kind, other_id] in MERGES {
        let expected = PersonUpdate {
            kind: kind.to_string(),
            distinct_id: "d".to_owned(),
            other_id: other_id.to_string(),
            ..row()
        };
        assert_eq!(
            update_of(event, "d", properties, ""),
            Some(expected),
            "{event} {properties}"
        );
    }
    let long = format!(r#"{{"alias":"{}"}}"#, "a".repeat(201));
    assert_eq!(
        update_of("$create_alias", "d", &long, "").unwrap().kind,
        "properties"
    );
}

#[test]
fn an_identify_with_an_illegal_id_or_without_a_name_names_no_user() {
    for id in ["'null'", "' Guest '"] {
        let row = update_of("$identify", id, r#"{"$anon_distinct_id":"a"}"#, "");
        assert_eq!(row.unwrap().kind, "properties", "{id}");
    }
    let engage = millrace_parse::ParseContext {
        engage: true,
        ..context()
    };
    for (name, kind) in [("", "properties"), (r#""event":"$identify","#, "identify")] {
        let body = format!(
            r#"{{"api_key":"{KEY}",{name}"$distinct_id":"d","properties":{{"$set":{{"a":1}}}}}}"#
        );
        let parsed = accepted(body, &engage);
        let rows = person_updates(&parsed.batch);
        assert_eq!((rows.len(), rows[0].kind.as_str()), (1, kind), "{name}");
    }
}

#[test]
fn groups_are_described_under_both_spellings() {
    for event in ["$groupidentify", "$group_identify"] {
        for (set, expected) in [
            ("", ""),
            (r#","$group_set":null"#, ""),
            (r#","$group_set":{"n":1}"#, r#"{"n":1}"#),
        ] {
            let properties = format!(r#"{{"$group_type":"company","$group_key":7{set}}}"#);
            let expected = PersonUpdate {
                group_type: "company".to_owned(),
                group_key: "7".to_owned(),
                group_set: expected.to_owned(),
                ..row()
            };
            assert_eq!(update_of(event, "d", &properties, ""), Some(expected));
        }
    }
    let both = r#"{"$group_type":"t","$group_key":"k","$set":{"a":1}}"#;
    let row = update_of("$groupidentify", "d", both, "").unwrap();
    assert_eq!(
        (row.distinct_id, row.group_key),
        ("d".to_owned(), "k".to_owned())
    );
}

#[test]
fn the_options_of_v1_keep_persons_out() {
    let protocol = Protocol::V1 {
        key: KEY,
        sent_at: None,
        sdk_info: None,
    };
    let v1 = context();
    let v1 = millrace_parse::ParseContext { protocol, ..v1 };
    for (option, properties, count) in [
        ("false", "", 0),
        ("true", "", 1),
        ("false", r#","$process_person_profile":true"#, 1),
    ] {
        let body = format!(
            r#"{{"batch":[{{"event":"e","distinct_id":"d","uuid":"{UUID}","timestamp":"2026-11-20T15:38:18Z",
            "options":{{"process_person_profile":{option}}},"properties":{{"$set":{{"a":1}}{properties}}}}}]}}"#
        );
        let parsed = accepted(body, &v1);
        assert_eq!(
            person_updates(&parsed.batch).len(),
            count,
            "{option} {properties}"
        );
    }
}

/// Object with one property of so many bytes, as they are counted.
fn object_of(name: &str, bytes: usize) -> String {
    let value_bytes = bytes - PROPERTY_BYTES_BESIDE - name.len() - 2;
    format!(r#"{{"{name}":"{}"}}"#, "x".repeat(value_bytes))
}

#[test]
fn an_update_with_more_than_a_person_or_group_may_have_is_passed_on_with_a_warning() {
    let max = PERSON_PROPERTIES_BYTES_MAX;
    let (fits, large) = (object_of("a", max), object_of("a", max + 1));
    let half = object_of("b", max / 2 + 1);
    let many: Vec<String> = (0..8_000)
        .map(|number| format!(r#""{number}":1"#))
        .collect();
    let many = format!("{{{}}}", many.join(","));
    let spaces = " ".repeat(max);
    let group = r#""$group_type":"t","$group_key":"k","$group_set""#;
    let table = [
        ("e", format!(r#"{{"$set":{large}}}"#), true),
        ("e", format!(r#"{{"$set_once":{large}}}"#), true),
        (
            "e",
            format!(r#"{{"$set":{half},"$set_once":{half}}}"#),
            true,
        ),
        ("e", format!(r#"{{"$set":{many}}}"#), true),
        ("$groupidentify", format!("{{{group}:{large}}}"), true),
        ("e", format!(r#"{{"$set":{fits}}}"#), false),
        ("e", format!(r#"{{"$set":{half},"a":{half}}}"#), false),
        ("e", format!(r#"{{"$set":{{"a":1{spaces}}}}}"#), false),
        ("$groupidentify", format!("{{{group}:{fits}}}"), false),
    ];
    for (event, properties, is_warned) in table {
        let body = format!(
            r#"{{"api_key":"{KEY}","event":"{event}","distinct_id":"d","properties":{properties}}}"#
        );
        let parsed = accepted(body, &context());
        let case = format!("{event} {}", &properties[..60]);
        let warnings = parsed.report.warnings.iter();
        let codes: Vec<_> = warnings.map(|warning| warning.code).collect();
        let expected: &[&str] = match is_warned {
            true => &["person_update_too_large"],
            false => &[],
        };
        assert_eq!(codes, expected, "{case}");
        assert_eq!(person_updates(&parsed.batch).len(), 1, "{case}");
    }
}

#[test]
fn an_update_that_counts_for_nobody_is_not_called_too_large() {
    let large = object_of("a", PERSON_PROPERTIES_BYTES_MAX + 1);
    let table: [(&str, &str, &str, &[&str]); 5] = [
        ("e", "d", "$not_set", &[]),
        ("$exception", "d", "$set", &[]),
        ("e", "null", "$set", &["illegal_distinct_id"]),
        ("e", "d", r#"$process_person_profile":false,"$set"#, &[]),
        ("e", "d", "$set", &["person_update_too_large"]),
    ];
    for (event, id, name, expected) in table {
        let body = format!(
            r#"{{"api_key":"{KEY}","$set":{{}},"event":"{event}","distinct_id":"{id}","properties":{{"{name}":{large}}}}}"#
        );
        let report = accepted(body, &context()).report;
        let codes: Vec<_> = report.warnings.iter().map(|it| it.code).collect();
        assert_eq!(codes, expected, "{event} {id} {name}");
    }
    let body = format!(r#"{{"api_key":"{KEY}","event":"e","distinct_id":"d","$set":{large}}}"#);
    let report = accepted(body, &context()).report;
    let detail = &report.warnings[0].detail;
    assert!(detail.contains("655360 bytes"), "{detail}");
}
