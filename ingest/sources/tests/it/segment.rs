//! Mapping of records of Segment and RudderStack.

use crate::support::{Mapped, map, refusal};
use millrace_sources::{Format, Options};
use serde_json::{Value, json};

fn record(kind: &str, fields: Value) -> Value {
    let mut record = json!({
        "type": kind, "userId": "user-1", "anonymousId": "anon-1", "messageId": "m-1",
        "timestamp": "2023-10-15T14:30:00.123Z", "receivedAt": "2023-10-15T14:30:05Z"});
    let base = record.as_object_mut().unwrap();
    base.extend(fields.as_object().unwrap().clone());
    base.retain(|_, value| *value != json!("REMOVE"));
    record
}

fn mapped(kind: &str, fields: Value) -> Mapped {
    map(Format::Segment, &Options::default(), &record(kind, fields))
}

#[test]
fn a_track_call_becomes_an_event() {
    let event = mapped(
        "track",
        json!({"event": "Order Completed", "properties": {"total": 9.90, "path": "/x"}}),
    );
    let expected = json!({
        "event": "Order Completed", "distinct_id": "user-1", "timestamp": "2023-10-15T14:30:00.123000Z",
        "properties": {
            "total": 9.9, "path": "/x", "$device_id": "anon-1", "analytics_source": "segment", "$geoip_disable": true,
        },
    });
    assert_eq!(*event.one(), expected);
    assert_eq!(event.ids, ["track | m-1"]);
    assert!(event.notes.is_empty());
    let event = map(
        Format::Rudderstack,
        &Options::default(),
        &record("track", json!({"event": "e", "request_ip": "1.2.3.4"})),
    );
    assert_eq!(*event.property("analytics_source"), "rudderstack");
    assert_eq!(*event.property("$ip"), "1.2.3.4");
}

#[test]
fn an_identify_call_has_the_user_and_the_anonymous_id() {
    let event = mapped(
        "identify",
        json!({"traits": {"email": "a@b.example", "plan": null}}),
    );
    assert_eq!(event.one()["event"], "$identify");
    assert_eq!(*event.property("$anon_distinct_id"), "anon-1");
    assert_eq!(
        *event.property("$set"),
        json!({"email": "a@b.example", "plan": null})
    );
    let same = mapped("identify", json!({"anonymousId": "user-1"}));
    assert_eq!(*same.property("$anon_distinct_id"), Value::Null);
    let unknown = mapped("identify", json!({"userId": null, "traits": {"a": 1}}));
    assert_eq!(
        (&unknown.one()["event"], &unknown.one()["distinct_id"]),
        (&json!("$set"), &json!("anon-1"))
    );
    assert_eq!(*unknown.property("$set"), json!({"a": 1}));
}

#[test]
fn page_and_screen_calls_get_our_names() {
    let event = mapped(
        "page",
        json!({
        "name": "Docs", "category": "Help",
        "properties": {"url": "https://a.example/b?c", "path": "/b", "referrer": "r", "title": "T", "search": "?c"},
        "context": {"page": {"url": "elsewhere", "title": "other"}}}),
    );
    assert_eq!(event.one()["event"], "$pageview");
    assert_eq!(event.notes, ["renamed_event"]);
    let mut properties = event.properties();
    properties.remove("$device_id");
    let expected = json!({
        "$current_url": "https://a.example/b?c", "$pathname": "/b", "$referrer": "r", "title": "T", "search": "?c",
        "name": "Docs", "category": "Help"});
    assert_eq!(Value::Object(properties), expected);
    let screen = mapped(
        "screen",
        json!({"name": "Home", "properties": {"url": "app://x"}}),
    );
    assert_eq!(screen.one()["event"], "$screen");
    assert_eq!(
        (screen.property("$screen_name"), screen.property("url")),
        (&json!("Home"), &json!("app://x"))
    );
}

#[test]
fn a_screens_name_is_read_from_every_field_that_libraries_use() {
    let table = [
        (json!({"name": "Home", "event": "no"}), json!("Home")),
        (
            json!({"event": "Main", "properties": {"name": "no"}}),
            json!("Main"),
        ),
        (
            json!({"event": "", "properties": {"name": "Main"}}),
            json!("Main"),
        ),
        (
            json!({"event": "no", "properties": {"$screen_name": "Own"}}),
            json!("Own"),
        ),
        (json!({}), Value::Null),
    ];
    for (fields, expected) in table {
        for format in [Format::Segment, Format::Rudderstack] {
            let event = map(
                format,
                &Options::default(),
                &record("screen", fields.clone()),
            );
            assert_eq!(*event.property("$screen_name"), expected, "{fields}");
        }
    }
}

#[test]
fn the_type_of_a_call_is_read_in_any_case() {
    let table = [
        ("Track", "e", "track | m-1"),
        ("PAGE", "$pageview", "page | m-1"),
        ("Identify", "$identify", "identify | m-1"),
    ];
    for (kind, name, id) in table {
        let event = map(
            Format::Rudderstack,
            &Options::default(),
            &record(kind, json!({"event": "e"})),
        );
        assert_eq!(
            (&event.one()["event"], &event.ids[..]),
            (&json!(name), &[id.to_owned()][..])
        );
    }
}

#[test]
fn a_group_call_describes_the_group() {
    let event = mapped(
        "group",
        json!({"groupId": "g-1", "traits": {"name": "Acme"}}),
    );
    assert_eq!(event.one()["event"], "$groupidentify");
    assert_eq!(*event.property("$group_type"), "company");
    assert_eq!(*event.property("$group_key"), "g-1");
    assert_eq!(*event.property("$group_set"), json!({"name": "Acme"}));
    assert_eq!(*event.property("$groups"), json!({"company": "g-1"}));
    let typed = mapped(
        "group",
        json!({"groupId": 7, "traits": {"groupType": "team"}}),
    );
    assert_eq!(*typed.property("$groups"), json!({"team": "7"}));
    let options = Options {
        group_type: "org".to_owned(),
        ..Options::default()
    };
    let with_context = record(
        "track",
        json!({"event": "e", "context": {"groupId": "g-2"}}),
    );
    let event = map(Format::Segment, &options, &with_context);
    assert_eq!(*event.property("$groups"), json!({"org": "g-2"}));
}

#[test]
fn an_alias_call_merges_the_previous_id() {
    let event = mapped("alias", json!({"previousId": "old"}));
    assert_eq!(
        (&event.one()["event"], event.property("alias")),
        (&json!("$create_alias"), &json!("old"))
    );
    assert_eq!(event.one()["distinct_id"], "user-1");
}

#[test]
fn context_fields_get_our_names_unless_a_property_has_them() {
    let table = [
        (
            json!({"app": {"version": "1.2"}}),
            "$app_version",
            json!("1.2"),
        ),
        (
            json!({"campaign": {"name": "x"}}),
            "utm_campaign",
            json!("x"),
        ),
        (
            json!({"device": {"id": "d", "type": "ios"}}),
            "$device_id",
            json!("d"),
        ),
        (
            json!({"library": {"name": "analytics.js"}}),
            "$lib",
            json!("analytics.js"),
        ),
        (
            json!({"location": {"city": "Lima"}}),
            "$geoip_city_name",
            json!("Lima"),
        ),
        (
            json!({"network": {"wifi": true}}),
            "$network_wifi",
            json!(true),
        ),
        (
            json!({"os": {"name": "iOS", "version": ""}}),
            "$os",
            json!("iOS"),
        ),
        (json!({"os": {"version": ""}}), "$os_version", Value::Null),
        (json!({"page": {"url": "u"}}), "$current_url", json!("u")),
        (
            json!({"screen": {"width": 320}}),
            "$screen_width",
            json!(320),
        ),
        (json!({"ip": "1.2.3.4"}), "$ip", json!("1.2.3.4")),
        (json!({"userAgent": "a"}), "$raw_user_agent", json!("a")),
        (json!({"locale": "de"}), "$locale", json!("de")),
        (json!({"traits": {"a": 1}}), "$set", json!({"a": 1})),
        (json!({"os": {"name": "x"}, "app": 5}), "own", json!(1)),
    ];
    for (context, name, expected) in table {
        let event = mapped(
            "track",
            json!({"event": "e", "context": context.clone(), "properties": {"own": 1}}),
        );
        assert_eq!(*event.property(name), expected, "{context}");
    }
    let event = mapped(
        "track",
        json!({"event": "e", "context": {"ip": "b"}, "properties": {"$ip": "a"}}),
    );
    assert_eq!(*event.property("$ip"), "a");
}

#[test]
fn times_of_wrong_clocks_are_corrected_without_a_timestamp() {
    let times = |fields: Value| {
        let mut fields = fields;
        fields["event"] = json!("e");
        fields["timestamp"] = json!("REMOVE");
        let event = mapped("track", fields);
        assert_eq!(event.notes, ["time_of_another_field"]);
        event.one()["timestamp"].as_str().unwrap().to_owned()
    };
    let off = json!({
        "originalTimestamp": "2020-01-01T00:00:00Z", "sentAt": "2020-01-01T00:00:01.5Z",
        "receivedAt": "2023-10-15T14:30:05Z"});
    assert_eq!(times(off), "2023-10-15T14:30:03.500000Z");
    let unsent = json!({"originalTimestamp": "2020-01-01T00:00:00+02:00"});
    assert_eq!(times(unsent), "2019-12-31T22:00:00Z");
    assert_eq!(times(json!({})), "2023-10-15T14:30:05Z");
    let in_numbers = json!({
        "originalTimestamp": 1_577_836_800, "sentAt": 1_577_836_801_500_u64, "receivedAt": "1697380205000"});
    assert_eq!(times(in_numbers), "2023-10-15T14:30:03.500000Z");
}

#[test]
fn an_unused_time_may_be_invalid() {
    let original = "2020-01-01T00:00:00Z";
    let table = [
        (
            json!({"timestamp": "2023-10-15T14:30:00Z", "sentAt": "x", "originalTimestamp": "x"}),
            Ok("2023-10-15T14:30:00Z"),
        ),
        (
            json!({"timestamp": 1_697_380_200_123_u64}),
            Ok("2023-10-15T14:30:00.123000Z"),
        ),
        (
            json!({"timestamp": "REMOVE", "originalTimestamp": original, "sentAt": "x"}),
            Ok(original),
        ),
        (
            json!({"timestamp": "REMOVE", "originalTimestamp": original, "sentAt": original, "receivedAt": "x"}),
            Ok(original),
        ),
        (
            json!({"timestamp": "REMOVE", "sentAt": "x"}),
            Ok("2023-10-15T14:30:05Z"),
        ),
        (
            json!({"timestamp": "REMOVE", "originalTimestamp": "x"}),
            Err("originalTimestamp"),
        ),
        (
            json!({"timestamp": "REMOVE", "receivedAt": "x"}),
            Err("receivedAt"),
        ),
    ];
    for (fields, expected) in table {
        let record = record("page", fields.clone());
        match expected {
            Ok(at) => assert_eq!(
                map(Format::Segment, &Options::default(), &record).one()["timestamp"],
                at,
                "{fields}"
            ),
            Err(field) => {
                let refused = refusal(Format::Segment, &Options::default(), &record);
                assert_eq!(
                    refused,
                    ("invalid_timestamp", Some(field.to_owned())),
                    "{fields}"
                );
            }
        }
    }
}

#[test]
fn missing_or_invalid_fields_are_refused() {
    let table = [
        (record("track", json!({})), "missing_event", Some("event")),
        (record("delete", json!({})), "invalid_record", Some("type")),
        (record("REMOVE", json!({})), "invalid_record", Some("type")),
        (
            record("group", json!({})),
            "invalid_record",
            Some("groupId"),
        ),
        (
            record("alias", json!({"anonymousId": "REMOVE"})),
            "invalid_record",
            Some("previousId"),
        ),
        (
            record("page", json!({"timestamp": "x"})),
            "invalid_timestamp",
            Some("timestamp"),
        ),
        (
            record("page", json!({"timestamp": "REMOVE", "receivedAt": null})),
            "missing_timestamp",
            Some("timestamp"),
        ),
        (
            record("page", json!({"userId": "", "anonymousId": null})),
            "missing_distinct_id",
            Some("userId, anonymousId"),
        ),
    ];
    for (record, code, field) in table {
        let refused = refusal(Format::Segment, &Options::default(), &record);
        assert_eq!(refused, (code, field.map(str::to_owned)), "{record}");
    }
    let nobody = record("page", json!({"userId": "", "anonymousId": null}));
    let options = Options {
        skip_without_distinct_id: true,
        ..Options::default()
    };
    assert_eq!(
        map(Format::Segment, &options, &nobody).notes,
        ["skipped_without_distinct_id"]
    );
    assert_eq!(mapped("page", json!({"messageId": null})).ids, ["Record"]);
}
