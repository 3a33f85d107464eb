//! Mapping of Mixpanel's records.

use crate::support::{Mapped, map, refusal, try_map};
use millrace_sources::{Format, Options};
use serde_json::{Value, json};

fn record(properties: Value) -> Value {
    let mut record = json!({"event": "Signed up", "properties": {
        "time": 1_697_379_000, "distinct_id": "user-1", "$insert_id": "insert-1"}});
    let base = record["properties"].as_object_mut().unwrap();
    base.extend(properties.as_object().unwrap().clone());
    base.retain(|_, value| *value != json!("REMOVE"));
    record
}

fn mapped(properties: Value) -> Mapped {
    map(Format::Mixpanel, &Options::default(), &record(properties))
}

#[test]
fn a_record_becomes_an_event() {
    let event = mapped(json!({"plan": "pro", "seats": 5, "tags": ["a", {"b": null}]}));
    let expected = json!({
        "event": "Signed up",
        "distinct_id": "user-1",
        "timestamp": "2023-10-15T14:10:00Z",
        "properties": {
            "plan": "pro", "seats": 5, "tags": ["a", {"b": null}],
            "analytics_source": "mixpanel", "$geoip_disable": true,
        },
    });
    assert_eq!(*event.one(), expected);
    assert_eq!(event.ids, ["insert-1 | user-1 | Signed up | 1697379000"]);
    assert!(event.notes.is_empty());
}

#[test]
fn numbers_keep_their_digits_and_texts_their_escapes() {
    let raw = br#"{"event":"e","properties":{"time":1,"distinct_id":"d","n":1.10,"big":12345678901234567890123,"s":"\ud83d\ude00\n\u0041","half":"\ud83d"}}"#;
    let mut mapping = Format::Mixpanel.mapping(&Options::default()).unwrap();
    let mut events = millrace_sources::Events::default();
    mapping.map(raw, &mut events).unwrap();
    let json = std::str::from_utf8(events.json()).unwrap();
    let kept =
        r#""n":1.10,"big":12345678901234567890123,"s":"\ud83d\ude00\n\u0041","half":"\ud83d","#;
    assert!(json.contains(kept), "{json}");
}

#[test]
fn times_keep_fractions_of_a_second() {
    let table = [
        (json!(1_697_379_000), "2023-10-15T14:10:00Z"),
        (json!(1_697_379_000_123_u64), "2023-10-15T14:10:00.123000Z"),
        (json!(1_697_379_000.25), "2023-10-15T14:10:00.250000Z"),
        (json!("1697379000"), "2023-10-15T14:10:00Z"),
    ];
    for (time, expected) in table {
        assert_eq!(
            mapped(json!({"time": time})).one()["timestamp"],
            expected,
            "{time}"
        );
    }
}

#[test]
fn times_of_old_projects_are_in_their_time_zone() {
    let options = Options {
        time_zone: Some("America/Los_Angeles".to_owned()),
        ..Options::default()
    };
    let event = map(Format::Mixpanel, &options, &record(json!({})));
    assert_eq!(event.one()["timestamp"], "2023-10-15T21:10:00Z");
    // The uuid depends on the source, not on the options.
    assert_eq!(event.ids, mapped(json!({})).ids);
    let options = Options {
        time_offset_seconds: -3_600,
        ..Options::default()
    };
    let event = map(Format::Mixpanel, &options, &record(json!({})));
    assert_eq!(event.one()["timestamp"], "2023-10-15T13:10:00Z");
}

#[test]
fn the_canonical_id_is_preferred_as_distinct_id() {
    let before = "$distinct_id_before_identity";
    let table = [
        (
            json!({"distinct_id": "user-1", before: "b"}),
            "user-1",
            None,
        ),
        // Canonical ids win however they look: customers' own ids, and uuids of Original ID Merge.
        (
            json!({"distinct_id": "324172", before: "$device:1", "$user_id": "324172"}),
            "324172",
            None,
        ),
        (
            json!({"distinct_id": "0A1B-2C", before: "b"}),
            "0A1B-2C",
            None,
        ),
        (
            json!({"distinct_id": "0A1B-2C", "$user_id": "u"}),
            "0A1B-2C",
            None,
        ),
        (
            json!({"distinct_id": "$device:1", before: "b"}),
            "$device:1",
            None,
        ),
        (json!({"distinct_id": "$device:1"}), "$device:1", None),
        (
            json!({"distinct_id": "$device:1", "$user_id": "u", before: "b"}),
            "u",
            Some("distinct_id_from_user_or_device"),
        ),
        (
            json!({"distinct_id": "$device:1", "$user_id": ""}),
            "$device:1",
            None,
        ),
        (
            json!({"distinct_id": "", before: "b"}),
            "b",
            Some("distinct_id_before_identity"),
        ),
        (
            json!({"distinct_id": "", before: 5, "$device_id": "d"}),
            "d",
            Some("distinct_id_from_user_or_device"),
        ),
        (json!({"distinct_id": 42}), "42", None),
        (
            json!({"distinct_id": "", "$user_id": "u", "$device_id": "d"}),
            "u",
            Some("distinct_id_from_user_or_device"),
        ),
        (
            json!({"distinct_id": null, "$device_id": "d"}),
            "d",
            Some("distinct_id_from_user_or_device"),
        ),
    ];
    for (properties, expected, rule) in table {
        let event = mapped(properties.clone());
        assert_eq!(event.one()["distinct_id"], expected, "{properties}");
        assert_eq!(event.notes, Vec::from_iter(rule), "{properties}");
    }
}

#[test]
fn properties_have_our_names_and_internal_ones_are_dropped() {
    let event = mapped(json!({
        "$city": "Zürich", "$region": "ZH", "mp_country_code": "CH", "$mp_api_endpoint": "x",
        "mp_processing_time_ms": 1, "$geo_source": "ip", "$mp_api_timestamp_ms": 2, "$os": "iOS"}));
    let expected = json!({
        "$geoip_city_name": "Zürich", "$geoip_subdivision_1_name": "ZH",
        "$geoip_country_code": "CH", "$geoip_country_name": "Switzerland", "$os": "iOS"});
    assert_eq!(Value::Object(event.properties()), expected);
    let event = mapped(json!({"$city": "a", "$geoip_city_name": "b", "mp_country_code": "XX"}));
    let expected = json!({"$geoip_city_name": "b", "$geoip_country_code": "XX"});
    assert_eq!(Value::Object(event.properties()), expected);
}

#[test]
fn known_events_get_our_names() {
    let mut view = record(json!({}));
    view["event"] = json!("$mp_web_page_view");
    let event = map(Format::Mixpanel, &Options::default(), &view);
    assert_eq!(event.one()["event"], "$pageview");
    assert_eq!(event.notes, ["renamed_event"]);
    assert_eq!(
        event.ids,
        ["insert-1 | user-1 | $mp_web_page_view | 1697379000"]
    );
}

/// Maps an event of Mixpanel's that has two ids, exported under `canonical` and sent with `sent`.
fn with_two_ids(event: &str, ids: Value, canonical: &str, sent: Option<&str>) -> Mapped {
    let mut record = record(ids);
    record["event"] = json!(event);
    record["properties"]["distinct_id"] = json!(canonical);
    if let Some(sent) = sent {
        record["properties"]["$distinct_id_before_identity"] = json!(sent);
    }
    map(Format::Mixpanel, &Options::default(), &record)
}

/// Describes each event's effect on persons: `identify USER ANONYMOUS`, `merge TARGET ALIAS`, or
/// the name and id of an event without effect.
fn effects(events: &Mapped) -> Vec<String> {
    let effects = |event: &Value| {
        let properties = &event["properties"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (name, id) = (text(&event["event"]), text(&event["distinct_id"]));
        let is_personless = properties["$process_person_profile"] == json!(false);
        match &*name {
            "$identify" if !is_personless => {
                format!("identify {id} {}", text(&properties["$anon_distinct_id"]))
            }
            "$merge_dangerously" => format!("merge {id} {}", text(&properties["alias"])),
            _ => format!("{name} {id}"),
        }
    };
    events.events.iter().map(effects).collect()
}

// The canonical id used to be replaced with the ids of such an event. Under Original ID Merge it is
// any id of the user's cluster, so that the user's other events belonged to another person than the
// identify event.
#[test]
fn an_identify_belongs_to_the_canonical_id_and_merges_the_same_ids_as_mixpanel() {
    let by_api = json!({"$identified_id": "known", "$anon_id": "device"});
    let by_library = json!({"$user_id": "known", "$anon_distinct_id": "device"});
    // Canonical id, id it was sent with, effects.
    let table: [(&str, Option<&str>, &[&str]); 9] = [
        ("", None, &["identify known device"]),
        ("known", None, &["identify known device"]),
        ("known", Some("device"), &["identify known device"]),
        ("device", None, &["identify known device"]),
        (
            "device",
            Some("known"),
            &["identify device ", "identify known ", "merge device known"],
        ),
        // A third id of the cluster: the ids that Mixpanel has mapped to it are merged.
        (
            "third",
            Some("known"),
            &[
                "identify third device",
                "identify known ",
                "merge third known",
            ],
        ),
        ("third", Some("device"), &["identify third device"]),
        // It may be a constant that a client sends, and all users would become one person.
        ("third", None, &["$identify third", "identify known device"]),
        (
            "third",
            Some("fourth"),
            &["$identify third", "identify known device"],
        ),
    ];
    for (canonical, sent, expected) in table {
        for ids in [&by_api, &by_library] {
            let events = with_two_ids("$identify", ids.clone(), canonical, sent);
            let case = format!("{ids} {canonical} {sent:?}");
            assert_eq!(effects(&events), expected, "{case}");
            assert_eq!(events.notes[0], "merged_persons", "{case}");
            if canonical == "third" {
                assert_eq!(events.events[0]["distinct_id"], "third", "{case}");
            }
        }
    }
}

#[test]
fn the_id_that_a_library_sent_an_identify_with_is_merged() {
    let events = with_two_ids(
        "$identify",
        json!({"$anon_distinct_id": "device"}),
        "third",
        Some("known"),
    );
    assert_eq!(
        effects(&events),
        [
            "identify third device",
            "identify known ",
            "merge third known"
        ]
    );
    assert_eq!(
        events.notes,
        ["merged_persons", "generated_identify", "generated_merge"],
        "{events:?}"
    );
}

#[test]
fn without_the_option_an_identify_merges_nothing() {
    let options = Options {
        identify: false,
        ..Options::default()
    };
    let mut raw = record(json!({"$identified_id": "known", "$anon_id": "device"}));
    raw["event"] = json!("$identify");
    let events = map(Format::Mixpanel, &options, &raw);
    assert_eq!(effects(&events), ["identify user-1 "]);
}

#[test]
fn a_merge_belongs_to_the_canonical_id_and_merges_both_ids() {
    let table: [(&str, Option<&str>, &[&str]); 6] = [
        ("", None, &["merge a b"]),
        ("a", None, &["merge a b"]),
        ("b", Some("a"), &["merge b a"]),
        ("c", Some("a"), &["merge c a", "merge c b"]),
        ("c", Some("b"), &["merge c a", "merge c b"]),
        ("c", None, &["$merge c", "merge a b"]),
    ];
    for (canonical, sent, expected) in table {
        let events = with_two_ids(
            "$merge",
            json!({"$distinct_ids": ["a", "b"]}),
            canonical,
            sent,
        );
        assert_eq!(effects(&events), expected, "{canonical} {sent:?}");
        assert_eq!(events.notes[0], "merged_persons");
    }
    let events = with_two_ids("$merge", json!({"$distinct_ids": ["a", "b"]}), "", None);
    assert_eq!(events.notes, ["merged_persons", "renamed_event"]);
}

#[test]
fn group_keys_become_groups() {
    let options = Options {
        group_keys: vec!["company".to_owned(), "team".to_owned(), "none".to_owned()],
        ..Options::default()
    };
    let event = map(
        Format::Mixpanel,
        &options,
        &record(json!({"company": ["acme", "b"], "team": 7})),
    );
    assert_eq!(
        *event.property("$groups"),
        json!({"company": "acme", "team": "7"})
    );
    assert_eq!(*event.property("company"), json!(["acme", "b"]));
}

#[test]
fn missing_or_invalid_fields_are_refused() {
    let table = [
        (json!({"properties": {}}), "missing_event", Some("event")),
        (
            json!({"event": " ", "properties": {}}),
            "missing_event",
            Some("event"),
        ),
        (json!({"event": "e"}), "missing_timestamp", Some("time")),
        (
            json!({"event": "e", "properties": []}),
            "invalid_record",
            None,
        ),
        (
            record(json!({"time": "REMOVE"})),
            "missing_timestamp",
            Some("time"),
        ),
        (
            record(json!({"time": null})),
            "missing_timestamp",
            Some("time"),
        ),
        (
            record(json!({"time": -5})),
            "invalid_timestamp",
            Some("time"),
        ),
        (
            record(json!({"time": "soon"})),
            "invalid_timestamp",
            Some("time"),
        ),
        (
            record(json!({"distinct_id": "REMOVE"})),
            "missing_distinct_id",
            Some("distinct_id, $distinct_id_before_identity, $user_id, $device_id"),
        ),
    ];
    for (record, code, field) in table {
        let refused = refusal(Format::Mixpanel, &Options::default(), &record);
        assert_eq!(refused, (code, field.map(str::to_owned)), "{record}");
    }
    let cut = br#"{"event":"e","properties":{"time":1,"#;
    assert_eq!(
        try_map(Format::Mixpanel, &Options::default(), cut)
            .unwrap_err()
            .code,
        "invalid_json"
    );
}

#[test]
fn events_without_distinct_id_are_skipped_and_counted_by_option() {
    let options = Options {
        skip_without_distinct_id: true,
        ..Options::default()
    };
    let skipped = map(
        Format::Mixpanel,
        &options,
        &record(json!({"distinct_id": "REMOVE"})),
    );
    assert!(skipped.events.is_empty());
    assert_eq!(skipped.notes, ["skipped_without_distinct_id"]);
}

#[test]
fn without_an_insert_id_the_record_gives_the_id() {
    assert_eq!(mapped(json!({"$insert_id": "REMOVE"})).ids, ["Record"]);
}
