//! Mapping of rows of Google Analytics' export to BigQuery.

use crate::support::{Mapped, map, refusal};
use millrace_sources::{Format, Options};
use serde_json::{Value, json};

fn row(columns: Value) -> Value {
    let mut row = json!({
        "event_date": "20231015", "event_timestamp": "1697380200123456", "event_name": "add_to_cart",
        "user_pseudo_id": "123.456"});
    let base = row.as_object_mut().unwrap();
    base.extend(columns.as_object().unwrap().clone());
    base.retain(|_, value| *value != json!("REMOVE"));
    row
}

fn mapped(columns: Value) -> Mapped {
    map(Format::GoogleAnalytics, &Options::default(), &row(columns))
}

#[test]
fn a_row_becomes_an_event() {
    let event = mapped(json!({"event_params": [
        {"key": "ga_session_id", "value": {"int_value": "1697380000"}},
        {"key": "page_location", "value": {"string_value": "https://a.example/"}},
        {"key": "price", "value": {"string_value": null, "int_value": null, "float_value": null, "double_value": 1.50}},
        {"key": "odd", "value": {"double_value": "NaN"}},
        {"key": "nothing", "value": {}}]}));
    let expected = json!({
        "event": "add_to_cart", "distinct_id": "123.456", "timestamp": "2023-10-15T14:30:00.123456Z",
        "properties": {
            "ga_session_id": 1_697_380_000, "$current_url": "https://a.example/", "price": 1.5, "odd": "NaN",
            "$device_id": "123.456", "analytics_source": "google-analytics", "$geoip_disable": true,
        },
    });
    assert_eq!(*event.one(), expected);
    assert_eq!(event.ids, ["Record"]);
}

#[test]
fn screen_names_are_taken_from_the_parameters() {
    let parameter =
        |name: &str, value: &str| json!({"key": name, "value": {"string_value": value}});
    let class = parameter("firebase_screen_class", "MainActivity");
    let table = [
        (
            vec![class.clone(), parameter("firebase_screen", "Home")],
            json!("Home"),
        ),
        (
            vec![parameter("screen_name", "Web home")],
            json!("Web home"),
        ),
        (
            vec![class.clone(), parameter("firebase_screen", "(not set)")],
            json!("MainActivity"),
        ),
        (vec![], Value::Null),
    ];
    for (parameters, expected) in table {
        let event = mapped(json!({"event_name": "screen_view", "event_params": parameters}));
        assert_eq!(event.one()["event"], "$screen");
        assert_eq!(*event.property("$screen_name"), expected, "{parameters:?}");
    }
    let other = mapped(json!({"event_params": [class]}));
    assert_eq!(*other.property("$screen_name"), Value::Null);
}

#[test]
fn placeholders_for_missing_values_are_dropped() {
    for nothing in ["(direct)", "(none)", "(not set)", "(data deleted)", ""] {
        let event = mapped(json!({
            "event_params": [
                {"key": "source", "value": {"string_value": nothing}},
                {"key": "medium", "value": {"string_value": nothing}},
                {"key": "own", "value": {"string_value": "(none)"}}],
            "collected_traffic_source": {"manual_source": "mail", "manual_medium": nothing},
            "geo": {"city": nothing},
            "traffic_source": {"source": nothing, "medium": nothing, "name": nothing}}));
        let expected = json!({"utm_source": "mail", "own": "(none)", "$device_id": "123.456"});
        assert_eq!(Value::Object(event.properties()), expected, "{nothing}");
    }
}

#[test]
fn placeholders_are_dropped_from_persons_items_and_purchases() {
    for nothing in ["(direct)", "(none)", "(not set)", "(data deleted)"] {
        let property =
            |key: &str, value: &str| json!({"key": key, "value": {"string_value": value}});
        let parameters = json!([property("own", nothing)]);
        let event = mapped(json!({
            "user_properties": [property("plan", nothing), property("seats", ""), property("team", "a")],
            "items": [
                {"item_id": "1", "item_brand": nothing, "price": 1.50, "item_list_name": nothing, "item_params": parameters},
                {"item_id": nothing}],
            "ecommerce": {"transaction_id": nothing, "total_item_quantity": 2}}));
        let expected = json!({
            "$device_id": "123.456", "$set": {"seats": "", "team": "a"},
            "items": [{"item_id": "1", "price": 1.5, "item_params": parameters}, {}],
            "ecommerce": {"total_item_quantity": 2}});
        assert_eq!(Value::Object(event.properties()), expected, "{nothing}");
        let event = mapped(json!({
            "user_properties": [property("plan", nothing)], "ecommerce": {"transaction_id": nothing}}));
        let expected = json!({"$device_id": "123.456"});
        assert_eq!(Value::Object(event.properties()), expected, "{nothing}");
    }
    // Numbers keep their digits beside what is left out.
    let event = br#"{"event_name":"e","user_pseudo_id":"d","event_timestamp":"1697380200123456","items":[{"item_brand":"(not set)","price":1.10}]}"#;
    let mut mapping = Format::GoogleAnalytics
        .mapping(&Options::default())
        .unwrap();
    let mut events = millrace_sources::Events::default();
    mapping.map(event, &mut events).unwrap();
    let json = std::str::from_utf8(events.json()).unwrap();
    assert!(json.contains(r#""items":[{"price":1.10}]"#), "{json}");
}

#[test]
fn google_analytics_columns_become_properties_of_events() {
    let table = [
        (
            json!({"device": {"category": "mobile"}}),
            "$device_type",
            json!("Mobile"),
        ),
        (
            json!({"device": {"operating_system": "iOS"}}),
            "$os",
            json!("iOS"),
        ),
        (
            json!({"device": {"web_info": {"browser": "Safari"}}}),
            "$browser",
            json!("Safari"),
        ),
        (
            json!({"device": {"web_info": {"hostname": "a.example"}}}),
            "$host",
            json!("a.example"),
        ),
        (
            json!({"geo": {"country": "Peru"}}),
            "$geoip_country_name",
            json!("Peru"),
        ),
        (
            json!({"geo": {"city": "(not set)"}}),
            "$geoip_city_name",
            Value::Null,
        ),
        (
            json!({"app_info": {"version": "1.2"}}),
            "$app_version",
            json!("1.2"),
        ),
        (
            json!({"collected_traffic_source": {"manual_source": "x"}}),
            "utm_source",
            json!("x"),
        ),
    ];
    for (columns, name, expected) in table {
        let event = mapped(columns.clone());
        assert_eq!(*event.property(name), expected, "{columns}");
    }
}

#[test]
fn items_purchases_and_person_properties_are_kept() {
    let table = [
        (
            json!({"items": [{"item_id": "1"}]}),
            "items",
            json!([{"item_id": "1"}]),
        ),
        (json!({"items": []}), "items", Value::Null),
        (
            json!({"ecommerce": {"transaction_id": "t"}}),
            "ecommerce",
            json!({"transaction_id": "t"}),
        ),
        (
            json!({"event_value_in_usd": 2.5}),
            "ga_value_in_usd",
            json!(2.5),
        ),
        (
            json!({"traffic_source": {"name": "spring", "medium": null, "source": "(direct)"}}),
            "$set_once",
            json!({"$initial_utm_campaign": "spring"}),
        ),
        (
            json!({"user_properties": [{"key": "plan", "value": {"string_value": "pro", "set_timestamp_micros": "1"}}]}),
            "$set",
            json!({"plan": "pro"}),
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
fn known_events_get_our_names() {
    for (theirs, ours) in [
        ("page_view", "$pageview"),
        ("screen_view", "$screen"),
        ("first_visit", "first_visit"),
    ] {
        assert_eq!(mapped(json!({"event_name": theirs})).one()["event"], ours);
    }
}

#[test]
fn the_position_in_the_batch_gives_an_id() {
    let event =
        mapped(json!({"batch_page_id": "9", "batch_ordering_id": "2", "batch_event_index": "1"}));
    assert_eq!(
        event.ids,
        ["123.456 | 1697380200123456 | add_to_cart | 9 | 2 | 1"]
    );
}

#[test]
fn the_user_id_is_preferred_to_the_device() {
    let event = mapped(json!({"user_id": "user-1"}));
    assert_eq!(
        (&event.one()["distinct_id"], event.property("$device_id")),
        (&json!("user-1"), &json!("123.456"))
    );
}

#[test]
fn missing_or_invalid_fields_are_refused() {
    let table = [
        (json!({"event_name": ""}), "missing_event", "event_name"),
        (
            json!({"event_timestamp": "REMOVE"}),
            "missing_timestamp",
            "event_timestamp",
        ),
        (
            json!({"event_timestamp": "yesterday"}),
            "invalid_timestamp",
            "event_timestamp",
        ),
        (
            json!({"user_pseudo_id": null}),
            "missing_distinct_id",
            "user_id, user_pseudo_id",
        ),
    ];
    for (columns, code, field) in table {
        let refused = refusal(Format::GoogleAnalytics, &Options::default(), &row(columns));
        assert_eq!(refused, (code, Some(field.to_owned())));
    }
}
