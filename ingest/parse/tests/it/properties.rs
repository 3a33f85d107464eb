//! Section 4: properties are stored as they were sent, with additions in front.

use crate::support::{KEY, batch_of, context, row};
use millrace_parse::ParseContext;

fn stored(fields: &str, context: &ParseContext<'_>) -> String {
    row(batch_of(fields), context).properties
}

fn with_ip() -> ParseContext<'static> {
    ParseContext {
        client_ip: Some([192, 0, 2, 1].into()),
        ..context()
    }
}

#[test]
fn properties_are_stored_byte_for_byte() {
    let table = [
        "{}",
        "{ }",
        r#"{"a":1}"#,
        r#"{ "b" : 1 , "a" : [ 1 , 2 ] }"#,
        r#"{"n":1e400,"m":-0.0,"i":123456789012345678901234567890,"f":1.10,"t":1e-320}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"s":"\u0000\ud83d\n\/","\ud83d":"😀"}"#,
        r#"{"a":{"b":[{"c":"}"},"]",[],{}]},"d":null}"#,
        "{\"tab\":\"x\"\t\n,\r\"y\" :\ttrue}",
    ];
    for text in table {
        assert_eq!(
            stored(&format!(r#","properties": {text} "#), &context()),
            text
        );
    }
    assert_eq!(stored("", &context()), "{}");
    assert_eq!(
        stored(r#","properties":{"a":1},"properties":{"b":2}"#, &context()),
        r#"{"b":2}"#
    );
    assert_eq!(
        stored(r#","properties":{"a":1},"properties":null"#, &context()),
        "{}"
    );
}

#[test]
fn the_address_is_added_to_live_events() {
    let table = [
        ("", r#"{"$ip":"192.0.2.1"}"#),
        (r#","properties":{}"#, r#"{"$ip":"192.0.2.1"}"#),
        (r#","properties":{ }"#, r#"{"$ip":"192.0.2.1" }"#),
        (r#","properties":{"a":1}"#, r#"{"$ip":"192.0.2.1","a":1}"#),
        (
            r#","properties":{"$ip":"198.51.100.7"}"#,
            r#"{"$ip":"198.51.100.7"}"#,
        ),
        (
            r#","properties":{"$geoip_disable":true}"#,
            r#"{"$geoip_disable":true}"#,
        ),
        (
            r#","properties":{"$geoip_disable":false}"#,
            r#"{"$ip":"192.0.2.1","$geoip_disable":false}"#,
        ),
    ];
    for (fields, expected) in table {
        assert_eq!(stored(fields, &with_ip()), expected, "{fields}");
    }
    let v6 = ParseContext {
        client_ip: Some("::ffff:192.0.2.9".parse().unwrap()),
        ..context()
    };
    assert_eq!(stored("", &v6), r#"{"$ip":"192.0.2.9"}"#);
}

#[test]
fn the_address_is_not_added_to_imports_or_for_private_projects() {
    let historical = ParseContext {
        historical_query: true,
        ..with_ip()
    };
    assert_eq!(stored("", &historical), "{}");
    let private = batch_of("").replace(KEY, "phc_private");
    assert_eq!(row(private, &with_ip()).properties, "{}");
}

#[test]
fn fields_beside_the_properties_move_into_them() {
    let table = [
        (r#","$set":{"a":1}"#, r#"{"$set":{"a":1}}"#),
        (
            r#","$set":{"a":1},"properties":{ "b":2}"#,
            r#"{"$set":{"a":1}, "b":2}"#,
        ),
        (
            r#","$set":{"a":1},"properties":{"$set":{"b":2}}"#,
            r#"{"$set":{"b":2}}"#,
        ),
        (
            r#","$set":{"a":1},"properties":{"\u0024set":{}}"#,
            r#"{"\u0024set":{}}"#,
        ),
        (
            r#","$groups":{"c":"g"},"$unset":["x","y,\"]"],"$set_once":{ },"$set":{"a":"\ud83d"},"properties":{"p":0}"#,
            r#"{"$set":{"a":"\ud83d"},"$set_once":{ },"$unset":["x","y,\"]"],"$groups":{"c":"g"},"p":0}"#,
        ),
        (r#","$unset":{"x":1}"#, r#"{"$unset":{"x":1}}"#),
        (r#","$unset":[]"#, r#"{"$unset":[]}"#),
        (r#","ip":"1.2.3.4","context":{}"#, "{}"),
    ];
    for (fields, expected) in table {
        assert_eq!(stored(fields, &context()), expected, "{fields}");
    }
    assert_eq!(
        stored(r#","$set":{"a":1},"properties":{"b":2}"#, &with_ip()),
        r#"{"$ip":"192.0.2.1","$set":{"a":1},"b":2}"#
    );
}
