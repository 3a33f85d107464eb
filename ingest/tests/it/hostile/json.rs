//! Malicious JSON, on every path that takes a body.

use crate::client::TestResponse;
use crate::test_env::{KEY, TestEnv};

const DEEP: usize = 1_000_000;
const CAPTURE: [&str; 6] = ["/batch", "/capture", "/e", "/i/v0/e", "/track", "/engage"];
const V1: &str = "/i/v1/analytics/events";

fn post(env: &TestEnv, path: &str, body: &[u8]) -> TestResponse {
    let bearer = format!("Bearer {KEY}");
    let headers: &[(&str, &str)] = match path {
        V1 => &[("Authorization", &bearer)],
        _ => &[],
    };
    env.client().post(path, headers, body)
}

/// Builds a batch of one event with this as its properties.
fn with_properties(properties: &[u8]) -> Vec<u8> {
    [
        format!(r#"{{"api_key":"{KEY}","batch":[{{"event":"e","distinct_id":"d","properties":"#)
            .as_bytes(),
        properties,
        b"}]}",
    ]
    .concat()
}

#[test]
fn a_million_levels_are_400_on_every_path() {
    let env = TestEnv::start();
    let open = |text: &str| text.repeat(DEEP).into_bytes();
    let closed = |open: &str, close: &str| format!("{}{}", open.repeat(DEEP), close.repeat(DEEP));
    let bodies = [
        ("open arrays", open("[")),
        ("open objects", open(r#"{"a":"#)),
        ("arrays", closed("[", "]").into_bytes()),
        (
            "objects",
            format!("{}1{}", r#"{"a":"#.repeat(DEEP), "}".repeat(DEEP)).into_bytes(),
        ),
        ("both", closed(r#"[{"a":"#, "}]").into_bytes()),
        (
            "in properties",
            with_properties(closed("[", "]").as_bytes()),
        ),
        (
            "in a batch",
            format!(r#"{{"api_key":"{KEY}","batch":{}}}"#, closed("[", "]")).into_bytes(),
        ),
        (
            "behind a surrogate",
            with_properties(format!(r#"{{"s":"\ud800","a":{}}}"#, closed("[", "]")).as_bytes()),
        ),
    ];
    for path in CAPTURE.into_iter().chain([V1]) {
        for (what, body) in &bodies {
            let answer = post(&env, path, body);
            assert_eq!(answer.status, 400, "{path}, {what}: {}", answer.code());
        }
    }
    for path in ["/flags", "/decide"] {
        // The body is not parsed.
        assert_eq!(post(&env, path, &bodies[0].1).status, 200, "{path}");
    }
    assert!(env.rows().events.is_empty());
}

#[test]
fn odd_json_is_stored_as_meant_or_refused_and_later_requests_are_stored() {
    let env = TestEnv::start();
    let long = [br#"{"a":"#.as_slice(), &[b'9'; 10_000], b"}"].concat();
    // Properties; the text in their row, or the code with which the request or the event is
    // refused.
    let table: [(&str, &[u8], Result<&str, &str>); 12] = [
        (
            "the same key twice",
            br#"{"a":1,"a":2}"#,
            Ok(r#""a":1,"a":2}"#),
        ),
        ("an escaped key", br#"{"\u0061":1}"#, Ok(r#"\u0061":1}"#)),
        (
            "an escaped NUL",
            br#"{"a":"\u0000"}"#,
            Ok(r#""a":"\u0000""#),
        ),
        (
            "a lone surrogate",
            br#"{"a":"\ud800"}"#,
            Ok(r#""a":"\ud800""#),
        ),
        (
            "a number beyond 64 bits",
            br#"{"a":123456789012345678901}"#,
            Ok("123456789012345678901"),
        ),
        (
            "a number beyond doubles",
            br#"{"a":1e999}"#,
            Ok(r#""a":1e999"#),
        ),
        ("a long number", &long, Ok("99999999")),
        ("NaN", br#"{"a":NaN}"#, Ok(r#""a":null"#)),
        (
            "bytes that are not UTF-8",
            b"{\"a\":\"\xff\xfe\"}",
            Err("invalid_utf8"),
        ),
        ("a raw NUL", b"{\"a\":\"\0\"}", Err("invalid_json")),
        ("half a literal", br#"{"a":tru}"#, Err("invalid_json")),
        ("a comma too many", br#"{"a":1,}"#, Err("invalid_json")),
    ];
    let mut faults = Vec::new();
    for (what, properties, expected) in table {
        let answer = post(&env, "/batch", &with_properties(properties));
        let got = match answer.status {
            200 => Ok(env.rows().events.last().unwrap().properties.clone()),
            _ => Err(answer.code()),
        };
        let as_expected = match (&got, expected) {
            (Ok(row), Ok(text)) => row.contains(text),
            (Err(got), Err(code)) => got == code,
            _ => false,
        };
        if !as_expected {
            faults.push(format!("{what}: {got:.200?}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(post(&env, "/batch", &with_properties(b"{}")).status, 200);
}

#[test]
fn an_escaped_name_is_the_name() {
    let env = TestEnv::start();
    let body = format!(
        r#"{{"\u0061pi_key":"{KEY}","\u0062atch":[{{"\u0065vent":"e","distinct\u005fid":"d"}}]}}"#
    );
    assert_eq!(post(&env, "/batch", body.as_bytes()).status, 200);
    assert_eq!(env.rows().names(), ["e"]);
}

#[test]
fn the_last_of_two_keys_in_one_request_counts() {
    let env = TestEnv::start();
    let event = r#""batch":[{"event":"e","distinct_id":"d"}]"#;
    let other = "phc_nobody000000000000000000000000000000000";
    for (first, second) in [(KEY, other), (other, KEY)] {
        let body = format!(r#"{{"api_key":"{first}",{event},"api_key":"{second}"}}"#);
        let status = post(&env, "/batch", body.as_bytes()).status;
        assert!([200, 400, 401].contains(&status), "{status}");
        // Last wins, as with every JSON parser that clients and proxies use.
        assert_eq!(status == 200, second == KEY, "{first} {second}");
    }
}
