//! Mapping of lines of Snowplow's enriched events.

use crate::support::{Mapped, mapped, try_map};
use millrace_sources::{Events, Format, Options, RecordError};
use serde_json::{Value, json};

const UUID: &str = "c6ef3124-b53a-4b13-a233-0088f79dcbcb";
/// Indexes of the columns that the tests fill.
const INDEXES: [(&str, usize); 26] = [
    ("app_id", 0),
    ("collector_tstamp", 3),
    ("dvce_created_tstamp", 4),
    ("event", 5),
    ("event_id", 6),
    ("user_id", 12),
    ("user_ipaddress", 13),
    ("domain_userid", 15),
    ("domain_sessionidx", 16),
    ("network_userid", 17),
    ("geo_country", 18),
    ("page_url", 29),
    ("mkt_medium", 47),
    ("contexts", 52),
    ("se_category", 53),
    ("se_action", 54),
    ("se_value", 57),
    ("unstruct_event", 58),
    ("br_cookies", 93),
    ("br_viewwidth", 95),
    ("dvce_ismobile", 102),
    ("derived_contexts", 122),
    ("derived_tstamp", 124),
    ("event_name", 126),
    ("event_fingerprint", 129),
    ("true_tstamp", 130),
];

/// Names and values of the columns that are not empty.
type Columns<'a> = &'a [(&'a str, &'a str)];

fn line(columns: Columns<'_>) -> String {
    let mut fields = vec![String::new(); 131];
    let base = [
        ("event", "page_view"),
        ("event_name", "page_view"),
        ("event_id", UUID),
        ("domain_userid", "browser-1"),
        ("derived_tstamp", "2023-10-15 14:30:00.123"),
        ("collector_tstamp", "2023-10-15 14:30:01.5"),
    ];
    for (name, value) in base.iter().chain(columns) {
        let index = INDEXES.iter().find(|(column, _)| column == name).unwrap().1;
        fields[index] = (*value).to_owned();
    }
    fields.join("\t")
}

fn try_mapped(columns: &[(&str, &str)]) -> Result<Mapped, RecordError> {
    try_map(
        Format::Snowplow,
        &Options::default(),
        line(columns).as_bytes(),
    )
}

fn map(columns: &[(&str, &str)]) -> Mapped {
    try_mapped(columns).unwrap()
}

#[test]
fn a_line_becomes_an_event() {
    let event = map(&[
        ("app_id", "shop"),
        ("user_ipaddress", "1.2.3.4"),
        ("domain_sessionidx", "3"),
        ("geo_country", "CH"),
        ("page_url", "https://a.example/ü"),
        ("mkt_medium", "cpc"),
        ("br_cookies", "1"),
        ("br_viewwidth", "1024"),
        ("dvce_ismobile", "0"),
    ]);
    let expected = json!({
        "event": "$pageview", "distinct_id": "browser-1", "timestamp": "2023-10-15T14:30:00.123000Z", "uuid": UUID,
        "properties": {
            "app_id": "shop", "$ip": "1.2.3.4", "$device_id": "browser-1", "domain_sessionidx": 3,
            "$geoip_country_code": "CH", "$geoip_country_name": "Switzerland", "$current_url": "https://a.example/ü",
            "utm_medium": "cpc", "br_cookies": true, "$viewport_width": 1024, "dvce_ismobile": false,
            "analytics_source": "snowplow", "$geoip_disable": true,
        },
    });
    assert_eq!(*event.one(), expected);
    assert_eq!(event.notes, ["renamed_event"]);
}

#[test]
fn events_have_the_names_of_the_application() {
    let table: [(Columns<'_>, &str); 6] = [
        (
            &[("event", "unstruct"), ("event_name", "add_to_cart")],
            "add_to_cart",
        ),
        (
            &[("event", "unstruct"), ("event_name", "screen_view")],
            "$screen",
        ),
        (
            &[
                ("event", "struct"),
                ("event_name", "event"),
                ("se_action", "play"),
            ],
            "play",
        ),
        (&[("event", "struct"), ("event_name", "event")], "struct"),
        (
            &[("event", "page_ping"), ("event_name", "page_ping")],
            "page_ping",
        ),
        (
            &[("event", "transaction"), ("event_name", "")],
            "transaction",
        ),
    ];
    for (columns, expected) in table {
        assert_eq!(map(columns).one()["event"], expected);
    }
}

#[test]
fn screen_names_are_taken_from_the_event_or_its_context() {
    let wrapped = |data: Value| {
        json!({"schema": "iglu:com.snowplowanalytics.snowplow/unstruct_event/jsonschema/1-0-0", "data": {
            "schema": "iglu:com.snowplowanalytics.mobile/screen_view/jsonschema/1-0-0", "data": data}})
    };
    let attached = json!({"schema": "iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-1", "data": [
        {"schema": "iglu:com.snowplowanalytics.mobile/screen/jsonschema/1-0-0", "data": {"name": "Attached", "id": "x"}}]});
    let table = [
        (
            "screen_view",
            wrapped(json!({"name": "Home", "id": "x"})),
            json!("Home"),
        ),
        (
            "screen_view",
            wrapped(json!({"id": "x"})),
            json!("Attached"),
        ),
        ("screen_end", wrapped(json!({"name": "Home"})), Value::Null),
    ];
    for (event_name, unstruct, expected) in table {
        let event = map(&[
            ("event", "unstruct"),
            ("event_name", event_name),
            ("unstruct_event", &unstruct.to_string()),
            ("contexts", &attached.to_string()),
        ]);
        assert_eq!(*event.property("$screen_name"), expected, "{unstruct}");
    }
}

#[test]
fn fields_of_self_describing_events_are_properties() {
    let own = json!({"schema": "iglu:com.snowplowanalytics.snowplow/unstruct_event/jsonschema/1-0-0", "data": {
        "schema": "iglu:com.acme/add_to_cart/jsonschema/1-0-0", "data": {"sku": "x", "price": 1.50, "app_id": "no"}}});
    let event = map(&[
        ("event", "unstruct"),
        ("event_name", "e"),
        ("app_id", "shop"),
        ("unstruct_event", &own.to_string()),
    ]);
    let expected = json!({"sku": "x", "price": 1.5, "app_id": "shop", "$device_id": "browser-1"});
    assert_eq!(Value::Object(event.properties()), expected);
}

#[test]
fn contexts_are_properties_by_their_schema() {
    let part =
        |schema: &str, data: Value| json!({"schema": format!("iglu:{schema}"), "data": data});
    let contexts = json!({"schema": "iglu:x/contexts/jsonschema/1-0-0", "data": [
        part("com.acme/userType/jsonschema/1-0-0", json!({"a": 1})),
        part("com.acme/userType/jsonschema/1-1-0", json!({"a": 2})),
        part("com.acme/other/jsonschema/2-0-0", json!({"b": null})), {"schema": 5}]});
    let derived =
        json!({"schema": "x", "data": [part("org.ua/parser/jsonschema/1-0-0", json!({"c": "d"}))]});
    let event = map(&[
        ("contexts", &contexts.to_string()),
        ("derived_contexts", &derived.to_string()),
    ]);
    assert_eq!(
        *event.property("contexts_com_acme_user_type_1"),
        json!([{"a": 1}, {"a": 2}])
    );
    assert_eq!(
        *event.property("contexts_com_acme_other_2"),
        json!([{"b": null}])
    );
    assert_eq!(
        *event.property("contexts_org_ua_parser_1"),
        json!([{"c": "d"}])
    );
}

#[test]
fn the_distinct_id_is_the_best_of_the_ids() {
    let session = json!({"schema": "x", "data": [{
        "schema": "iglu:com.snowplowanalytics.snowplow/client_session/jsonschema/1-0-2",
        "data": {"userId": "installation"}}]});
    let session = session.to_string();
    let table: [(Columns<'_>, &str); 4] = [
        (&[("user_id", "user-1")], "user-1"),
        (&[("network_userid", "n")], "browser-1"),
        (
            &[
                ("domain_userid", ""),
                ("contexts", &session),
                ("network_userid", "n"),
            ],
            "installation",
        ),
        (&[("domain_userid", ""), ("network_userid", "n")], "n"),
    ];
    for (columns, expected) in table {
        assert_eq!(map(columns).events.last().unwrap()["distinct_id"], expected);
    }
}

#[test]
fn a_user_is_identified_with_its_browser() {
    let event = map(&[("user_id", "user-1")]);
    assert_eq!(event.notes, ["generated_identify", "renamed_event"]);
    let identify = &event.events[0];
    assert_eq!(
        (&identify["event"], &identify["distinct_id"]),
        (&json!("$identify"), &json!("user-1"))
    );
    assert_eq!(identify["properties"]["$anon_distinct_id"], "browser-1");
    assert_eq!(identify["timestamp"], "2023-10-15T14:30:00.123000Z");
    for browser in ["", "user-1"] {
        let event = map(&[("user_id", "user-1"), ("domain_userid", browser)]);
        let identify = &event.events[0];
        assert_eq!(identify["event"], "$identify", "{browser}");
        assert_eq!(identify["properties"]["$anon_distinct_id"], Value::Null);
    }
}

#[test]
fn the_best_time_is_taken() {
    let table: [(Columns<'_>, &str); 3] = [
        (
            &[("true_tstamp", "2023-10-15 10:00:00.001")],
            "2023-10-15T10:00:00.001000Z",
        ),
        (
            &[
                ("derived_tstamp", ""),
                ("dvce_created_tstamp", "2023-10-15 11:00:00"),
            ],
            "2023-10-15T11:00:00Z",
        ),
        (&[("derived_tstamp", "")], "2023-10-15T14:30:01.500000Z"),
    ];
    for (columns, expected) in table {
        assert_eq!(map(columns).one()["timestamp"], expected);
    }
}

#[test]
fn missing_or_invalid_fields_are_refused() {
    let table: [(Columns<'_>, &str, Option<&str>); 7] = [
        (
            &[("event", ""), ("event_name", "")],
            "missing_event",
            Some("event_name"),
        ),
        (
            &[("derived_tstamp", ""), ("collector_tstamp", "")],
            "missing_timestamp",
            Some("derived_tstamp"),
        ),
        (
            &[("derived_tstamp", "x")],
            "invalid_timestamp",
            Some("derived_tstamp"),
        ),
        (
            &[("domain_userid", "")],
            "missing_distinct_id",
            Some("user_id, domain_userid, network_userid"),
        ),
        (&[("contexts", "{")], "invalid_json", Some("contexts")),
        (
            &[("unstruct_event", "[]")],
            "invalid_record",
            Some("unstruct_event"),
        ),
        (&[("unstruct_event", "a\tb")], "wrong_column_count", None),
    ];
    for (columns, code, field) in table {
        let error = try_mapped(columns).unwrap_err();
        assert_eq!((error.code, error.field.as_deref()), (code, field));
    }
    let broken = try_map(Format::Snowplow, &Options::default(), b"a\xff").unwrap_err();
    assert_eq!(broken.code, "invalid_utf8");
    let options = Options {
        skip_without_distinct_id: true,
        ..Options::default()
    };
    let mut events = Events::default();
    let mut mapping = Format::Snowplow.mapping(&options).unwrap();
    mapping
        .map(line(&[("domain_userid", "")]).as_bytes(), &mut events)
        .unwrap();
    assert_eq!(mapped(&events).notes, ["skipped_without_distinct_id"]);
    assert_eq!(map(&[("event_id", "x")]).ids, ["x"]);
}
