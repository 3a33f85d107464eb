//! Mapping of Amplitude's records.

use crate::support::{Mapped, map, own_properties, refusal};
use millrace_sources::{Format, Options};
use serde_json::{Value, json};

const UUID: &str = "0b7d1a4c-3f6e-11ee-9a51-0242ac120002";

/// Options without generated events.
fn plain() -> Options {
    Options {
        identify: false,
        groups: false,
        ..Options::default()
    }
}

fn record(columns: Value) -> Value {
    let mut record = json!({
        "event_type": "Song Played", "user_id": "user-1", "device_id": "device-1", "uuid": UUID,
        "event_time": "2023-10-15 14:30:00.123456", "$insert_id": "insert-1", "amplitude_id": 99,
    });
    let base = record.as_object_mut().unwrap();
    base.extend(columns.as_object().unwrap().clone());
    base.retain(|_, value| *value != json!("REMOVE"));
    record
}

pub fn mapped(columns: Value) -> Mapped {
    map(Format::Amplitude, &plain(), &record(columns))
}

#[test]
fn a_record_becomes_an_event() {
    let event = mapped(
        json!({"event_properties": {"title": "x", "length": 1.50}, "event_id": 7, "session_id": 0}),
    );
    let expected = json!({
        "event": "Song Played", "distinct_id": "user-1", "timestamp": "2023-10-15T14:30:00.123456Z", "uuid": UUID,
        "properties": {
            "title": "x", "length": 1.5, "$amplitude_user_id": "user-1", "$amplitude_device_id": "device-1",
            "$device_id": "device-1", "$amplitude_event_id": 7, "$amplitude_id": 99,
            "analytics_source": "amplitude", "$geoip_disable": true,
        },
    });
    assert_eq!(*event.one(), expected);
    assert_eq!(event.ids, ["Own"]);
    assert!(event.notes.is_empty());
}

#[test]
fn amplitude_columns_become_properties_of_events() {
    let table = [
        (
            json!({"country": "Chile"}),
            "$geoip_country_name",
            json!("Chile"),
        ),
        (json!({"city": "Lima"}), "$geoip_city_name", json!("Lima")),
        (
            json!({"region": "Bern"}),
            "$geoip_subdivision_1_name",
            json!("Bern"),
        ),
        (json!({"ip_address": "1.2.3.4"}), "$ip", json!("1.2.3.4")),
        (
            json!({"session_id": 123}),
            "$amplitude_session_id",
            json!(123),
        ),
        (json!({"version_name": "2.1"}), "$app_version", json!("2.1")),
        (
            json!({"platform": "Web"}),
            "$amplitude_platform",
            json!("Web"),
        ),
        (json!({"platform": ""}), "$amplitude_platform", Value::Null),
    ];
    for (columns, name, expected) in table {
        let event = mapped(columns.clone());
        assert_eq!(*event.property(name), expected, "{columns}");
    }
}

#[test]
fn properties_have_our_names() {
    let table = [
        (
            json!({"event_properties": {"[Amplitude] Page URL": "u"}}),
            "$current_url",
            json!("u"),
        ),
        (
            json!({"event_properties": {"[Amplitude] Page Domain": "d"}}),
            "$host",
            json!("d"),
        ),
        (
            json!({"event_properties": {"[Amplitude] Page Path": "p"}}),
            "$pathname",
            json!("p"),
        ),
        (
            json!({"event_properties": {"[Amplitude] Page Path": "p"}}),
            "[Amplitude] Page Path",
            json!("p"),
        ),
        (
            json!({"event_properties": {"[Amplitude] Viewport Height": 5}}),
            "$viewport_height",
            json!(5),
        ),
        (
            json!({"event_properties": {"[Amplitude] Viewport Width": 6}}),
            "$viewport_width",
            json!(6),
        ),
        (
            json!({"event_properties": {"referrer": "r"}}),
            "$referrer",
            json!("r"),
        ),
        (
            json!({"event_properties": {"referring_domain": "r"}}),
            "$referring_domain",
            json!("r"),
        ),
    ];
    for (columns, name, expected) in table {
        assert_eq!(
            *mapped(columns.clone()).property(name),
            expected,
            "{columns}"
        );
    }
}

#[test]
fn all_person_properties_are_kept() {
    let event = mapped(json!({
        "platform": "Web", "os_name": "Chrome", "os_version": "118", "city": "Lima",
        "user_properties": {
            "plan": "pro", "initial_referrer": "https://a.example", "initial_utm_source": "EMPTY",
            "initial_gclid": "g", "tags": [1, 2], "$os": "theirs"},
        "device_type": "Windows"}));
    let expected = json!({
        "$os": "Windows", "$browser": "Chrome", "$browser_version": "118", "$device_type": "Desktop",
        "$geoip_city_name": "Lima", "plan": "pro", "tags": [1, 2]});
    assert_eq!(*event.property("$set"), expected);
    assert_eq!(
        *event.property("$set_once"),
        json!({"$initial_referrer": "https://a.example", "$initial_gclid": "g"})
    );
    let bare = mapped(json!({}));
    assert_eq!(
        (bare.property("$set"), bare.property("$set_once")),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn known_events_get_our_names() {
    let table = [
        ("[Amplitude] Page Viewed", "$pageview"),
        ("[Amplitude] Element Clicked", "$autocapture"),
        ("[Amplitude] Element Changed", "$autocapture"),
        ("session_start", "session_start"),
        ("session_end", "session_end"),
    ];
    for (theirs, ours) in table {
        let event = mapped(json!({"event_type": theirs}));
        assert_eq!(event.one()["event"], ours);
        assert_eq!(event.notes.len(), usize::from(theirs != ours));
    }
}

#[test]
fn a_record_without_event_type_is_skipped_and_counted() {
    let table = [
        (
            json!({"event_type": "REMOVE"}),
            "skipped_without_event_type",
        ),
        (json!({"event_type": null}), "skipped_without_event_type"),
    ];
    for (columns, rule) in table {
        let skipped = mapped(columns);
        assert!(skipped.events.is_empty());
        assert_eq!(skipped.notes, [rule]);
    }
}

#[test]
fn the_first_readable_time_is_taken() {
    let other = vec!["time_of_another_field"];
    let table = [
        (
            json!({"event_time": "2023-10-15 14:30:00"}),
            "2023-10-15T14:30:00Z",
            vec![],
        ),
        (
            json!({"event_time": null, "client_event_time": "2023-10-15 14:31:00.5"}),
            "2023-10-15T14:31:00.500000Z",
            other.clone(),
        ),
        (
            json!({"event_time": "x", "client_event_time": "", "server_received_time": "2023-10-15 14:32:00"}),
            "2023-10-15T14:32:00Z",
            other,
        ),
    ];
    for (columns, expected, notes) in table {
        let event = mapped(columns);
        assert_eq!(
            (event.one()["timestamp"].as_str(), event.notes.clone()),
            (Some(expected), notes)
        );
    }
}

#[test]
fn the_distinct_id_is_user_device_or_amplitude_id() {
    let table = [
        (json!({"user_id": ""}), "device-1"),
        (json!({"user_id": null}), "device-1"),
        (json!({"user_id": 5}), "5"),
        (json!({"user_id": null, "device_id": ""}), "amplitude:99"),
    ];
    for (columns, expected) in table {
        assert_eq!(mapped(columns).one()["distinct_id"], expected);
    }
}

#[test]
fn event_ids_come_from_the_source() {
    let table = [
        (
            json!({"uuid": "REMOVE"}),
            "insert-1 | device-1 | Song Played | 2023-10-15 14:30:00.123456",
        ),
        (
            json!({"uuid": "none", "device_id": null}),
            "insert-1 |  | Song Played | 2023-10-15 14:30:00.123456",
        ),
        (json!({"uuid": null, "$insert_id": null}), "Record"),
    ];
    for (columns, expected) in table {
        assert_eq!(mapped(columns).ids, [expected]);
    }
}

#[test]
fn groups_of_an_event_become_its_groups_property() {
    let event = mapped(json!({"groups": {"org": ["acme", "b"], "team": "red", "none": []}}));
    assert_eq!(
        *event.property("$groups"),
        json!({"org": "acme", "team": "red"})
    );
}

#[test]
fn a_generated_event_is_the_same_row_for_every_record() {
    let columns = |time: &str| {
        record(json!({
            "event_time": time, "uuid": "REMOVE",
            "group_properties": {"org": {"acme": {"plan": "pro"}, "empty": {}}}}))
    };
    let generated = |time: &str| {
        let mapped = map(Format::Amplitude, &Options::default(), &columns(time));
        assert_eq!(
            mapped.notes,
            ["generated_identify", "generated_groupidentify"]
        );
        assert_eq!(mapped.events.len(), 3);
        assert_eq!(mapped.events[2]["event"], "Song Played");
        (mapped.events[..2].to_vec(), mapped.ids[..2].to_vec())
    };
    let (events, ids) = generated("2023-10-15 14:30:00");
    let (later, later_ids) = generated("2023-10-15 14:59:59");
    assert_eq!((&ids, &events[1]), (&later_ids, &later[1]));
    assert_ne!(ids, generated("2023-10-16 14:59:59").1);
    let identify = &events[0];
    // The record's own time, of the same day, so that the first of two users is known.
    assert_eq!(later[0]["timestamp"], "2023-10-15T14:59:59Z");
    assert_eq!(later[0]["properties"], identify["properties"]);
    assert_eq!(
        (&identify["event"], &identify["distinct_id"]),
        (&json!("$identify"), &json!("user-1"))
    );
    assert_eq!(identify["timestamp"], "2023-10-15T14:30:00Z");
    assert_eq!(own_properties(identify)["$anon_distinct_id"], "device-1");
    let group = &events[1];
    assert_eq!(
        (&group["event"], &group["distinct_id"]),
        (&json!("$groupidentify"), &json!("$org_acme"))
    );
    assert_eq!(group["timestamp"], "2023-10-15T14:00:00Z");
    let expected =
        json!({"$group_type": "org", "$group_key": "acme", "$group_set": {"plan": "pro"}});
    assert_eq!(Value::Object(own_properties(group)), expected);
}

#[test]
fn a_recently_generated_event_is_not_repeated() {
    let mut mapping = Format::Amplitude.mapping(&Options::default()).unwrap();
    let mut events = millrace_sources::Events::default();
    let mut count = |columns: Value| {
        events.clear();
        mapping
            .map(record(columns).to_string().as_bytes(), &mut events)
            .unwrap();
        events.list().len()
    };
    assert_eq!(count(json!({})), 2);
    assert_eq!(count(json!({})), 1);
    // The earliest record decides the first user of a device.
    assert_eq!(count(json!({"event_time": "2023-10-15 15:00:00"})), 1);
    assert_eq!(count(json!({"event_time": "2023-10-15 12:00:00"})), 2);
    assert_eq!(count(json!({"event_time": "2023-10-15 12:00:00"})), 1);
    assert_eq!(count(json!({"device_id": "another"})), 2);
    assert_eq!(count(json!({"event_time": "2023-10-16 00:00:00"})), 2);
    assert_eq!(count(json!({"device_id": "user-1"})), 2);
    assert_eq!(count(json!({"device_id": null})), 1, "as with its own id");
    assert_eq!(count(json!({"user_id": null})), 1);
}

#[test]
fn a_user_without_a_separate_device_is_identified() {
    for device in [json!("user-1"), json!(null), json!("")] {
        let columns = record(json!({"device_id": device}));
        let mapped = map(Format::Amplitude, &Options::default(), &columns);
        assert_eq!(mapped.notes, ["generated_identify"], "{device}");
        let identify = &mapped.events[0];
        assert_eq!(identify["event"], "$identify", "{device}");
        assert_eq!(identify["distinct_id"], "user-1", "{device}");
        assert!(!own_properties(identify).contains_key("$anon_distinct_id"));
        assert_eq!(mapped.events.len(), 2);
    }
}

#[test]
fn an_identify_without_user_sets_properties_of_the_device() {
    for (user, expected) in [
        (json!("user-1"), "$identify"),
        (json!(null), "$set"),
        (json!(""), "$set"),
    ] {
        let columns = json!({"event_type": "$identify", "user_id": user});
        assert_eq!(mapped(columns).one()["event"], expected, "{user}");
    }
}

#[test]
fn missing_or_invalid_fields_are_refused() {
    let nobody = json!({"user_id": null, "device_id": null, "amplitude_id": 0});
    let table = [
        (
            json!({"event_time": "REMOVE"}),
            "missing_timestamp",
            Some("event_time"),
        ),
        (
            json!({"event_time": "soon"}),
            "invalid_timestamp",
            Some("event_time"),
        ),
        (
            nobody.clone(),
            "missing_distinct_id",
            Some("user_id, device_id, amplitude_id"),
        ),
    ];
    for (columns, code, field) in table {
        let refused = refusal(Format::Amplitude, &plain(), &record(columns));
        assert_eq!(refused, (code, field.map(str::to_owned)));
    }
    let options = Options {
        skip_without_distinct_id: true,
        ..plain()
    };
    let skipped = map(Format::Amplitude, &options, &record(nobody));
    assert_eq!(skipped.notes, ["skipped_without_distinct_id"]);
}
