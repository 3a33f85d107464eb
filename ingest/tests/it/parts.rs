//! Section 1: one event in parts, at `/i/v0/ai`.

use crate::client::TestResponse;
use crate::encodings::gzip;
use crate::rows::properties;
use crate::test_env::{KEY, TestEnv};
use serde_json::{Value, json};

/// Boundary of the tests' bodies.
const BOUNDARY: &str = "----parts";

/// Part of a body: its name, its other headers, its content.
type Part<'a> = (&'a str, &'a str, &'a [u8]);
/// Case that is stored: parts, and the properties that are stored.
type Stored<'a> = (&'a str, Vec<Part<'a>>, Value);
/// Case that is refused: parts, status and code.
type Refused<'a> = (&'a str, Vec<Part<'a>>, u16, &'a str);

const JSON: &str = "Content-Type: application/json\r\n";
const TEXT: &str = "Content-Type: text/plain\r\n";
const GZIP: &str = "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n";
const ROT13: &str = "Content-Encoding: rot13\r\n";
const BARE: &[u8] = br#"{"event":"$ai_generation","distinct_id":"d"}"#;
/// Event without properties.
const EVENT: Part<'_> = ("event", JSON, BARE);
/// Event with properties.
const FULL: Part<'_> =
    event(br#"{"event":"$ai_generation","properties":{"n": 1.50},"distinct_id":"d"}"#);

const fn event(content: &[u8]) -> Part<'_> {
    ("event", JSON, content)
}

const fn properties_of(content: &[u8]) -> Part<'_> {
    ("event.properties", JSON, content)
}

const fn blob<'a>(headers: &'a str, content: &'a [u8]) -> Part<'a> {
    ("event.properties.x", headers, content)
}

fn body(parts: &[Part<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, headers, content) in parts {
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n{headers}\r\n"
        );
        body.extend([head.as_bytes(), content, b"\r\n"].concat());
    }
    [body, format!("--{BOUNDARY}--\r\n").into_bytes()].concat()
}

fn send(env: &TestEnv, body: &[u8]) -> TestResponse {
    let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
    let bearer = format!("Bearer {KEY}");
    let headers = [
        ("Content-Type", content_type.as_str()),
        ("Authorization", bearer.as_str()),
    ];
    env.client().post("/i/v0/ai", &headers, body)
}

#[test]
fn an_event_in_parts_is_stored_as_one() {
    let long = "He said: \"Grüße\"\n\u{1}\\".repeat(1000);
    let squeezed = gzip(long.as_bytes());
    let null = br#"{"event":"e","distinct_id":"d","properties":null}"#;
    let chat = br#"[{"role":"user"}]"#;
    let broken = r#"{"a":1},"b":{}"#;
    let in_text = ("event.properties.in.put", "", &b"x"[..]);
    let table: [Stored<'_>; 9] = [
        ("alone", vec![FULL], json!({"n": 1.5})),
        (
            "properties",
            vec![EVENT, properties_of(b" {\"a\": [1]} ")],
            json!({"a": [1]}),
        ),
        (
            "text",
            vec![FULL, blob(TEXT, long.as_bytes())],
            json!({"n": 1.5, "x": long}),
        ),
        (
            "no properties",
            vec![EVENT, in_text],
            json!({"in.put": "x"}),
        ),
        (
            "JSON",
            vec![EVENT, properties_of(b"{}"), blob(JSON, chat)],
            json!({"x": [{"role": "user"}]}),
        ),
        (
            "broken JSON",
            vec![EVENT, blob(JSON, broken.as_bytes())],
            json!({"x": broken}),
        ),
        (
            "gzip",
            vec![EVENT, blob(GZIP, &squeezed)],
            json!({"x": long}),
        ),
        (
            "another order",
            vec![blob(TEXT, b""), FULL],
            json!({"n": 1.5, "x": ""}),
        ),
        (
            "null",
            vec![event(null), blob(TEXT, b"y")],
            json!({"x": "y"}),
        ),
    ];
    table.into_iter().for_each(is_stored);
}

fn is_stored((what, parts, expected): Stored<'_>) {
    let env = TestEnv::start();
    let answer = send(&env, &body(&parts));
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(
        (answer.status, text.as_str()),
        (200, r#"{"status":"Ok"}"#),
        "{what}"
    );
    let rows = env.rows();
    assert_eq!(rows.rejected, [], "{what}");
    let mut stored = properties(&rows.events[0]);
    stored.as_object_mut().unwrap().remove("$ip");
    assert_eq!(stored, expected, "{what}");
}

#[test]
fn the_last_of_several_properties_in_an_event_counts() {
    let halves =
        br#"{"\ud800":1,"properties":{"x":1},"event":"e","distinct_id":"d","properties":{"y":1}}"#;
    let parts = vec![event(halves), blob(TEXT, b"z")];
    is_stored(("twice", parts, json!({"y": 1, "x": "z"})));
}

#[test]
fn parts_that_are_no_event_are_refused_with_the_reason() {
    let env = TestEnv::start();
    let bomb = gzip(&vec![b' '; 50 << 20]);
    let table: [Refused<'_>; 12] = [
        ("no event", vec![properties_of(b"{}")], 400, "invalid_body"),
        ("no name", vec![("", JSON, BARE)], 400, "invalid_body"),
        (
            "unknown",
            vec![EVENT, ("file", TEXT, b"x")],
            400,
            "invalid_body",
        ),
        ("twice", vec![EVENT, EVENT], 400, "invalid_body"),
        (
            "a blob twice",
            vec![blob(TEXT, b"1"), blob(TEXT, b"2")],
            400,
            "invalid_body",
        ),
        ("an array", vec![event(b"[]")], 400, "invalid_body"),
        ("cut JSON", vec![event(b"{\"a\":1")], 400, "invalid_json"),
        ("two events", vec![event(b"{}{}")], 400, "invalid_json"),
        (
            "properties twice",
            vec![FULL, properties_of(b"{}")],
            400,
            "invalid_body",
        ),
        (
            "a picture",
            vec![EVENT, blob(TEXT, b"\xff\xd8\xff")],
            400,
            "invalid_utf8",
        ),
        (
            "an encoding",
            vec![EVENT, blob(ROT13, b"x")],
            415,
            "unsupported_media_type",
        ),
        (
            "no gzip",
            vec![EVENT, blob(GZIP, b"x")],
            400,
            "invalid_encoding",
        ),
    ];
    let bombs: [Refused<'_>; 1] = [(
        "a bomb",
        vec![EVENT, blob(GZIP, &bomb)],
        400,
        "event_too_large",
    )];
    for case in table.into_iter().chain(bombs) {
        is_refused(&env, case);
    }
    assert_eq!(env.rows().events.len(), 0);
}

fn is_refused(env: &TestEnv, (what, parts, status, code): Refused<'_>) {
    let answer = send(env, &body(&parts));
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (status, code),
        "{what}"
    );
    assert!(
        answer.body.len() < 600,
        "{what}: the error repeats what was sent"
    );
}

#[test]
fn a_property_that_is_a_part_as_well_is_refused() {
    let env = TestEnv::start();
    let shadowed = br#"{"event":"e","distinct_id":"d","properties":{"y":{"x":1},"\u0078":[2]}}"#;
    let table: [Refused<'_>; 3] = [
        (
            "a property and its part",
            vec![event(shadowed), blob(TEXT, b"1")],
            400,
            "invalid_body",
        ),
        (
            "a part of properties and one of them",
            vec![blob(TEXT, b"1"), EVENT, properties_of(b"{\"x\":1}")],
            400,
            "invalid_body",
        ),
        (
            "properties that are none",
            vec![EVENT, properties_of(b"[]"), blob(TEXT, b"1")],
            400,
            "invalid_body",
        ),
    ];
    for case in table {
        is_refused(&env, case);
    }
    assert_eq!(env.rows().events.len(), 0);
}

#[test]
fn a_body_has_at_most_a_hundred_parts() {
    let env = TestEnv::start();
    let names = (0..5_000).map(|it| format!("event.properties.p{it}"));
    let names: Vec<_> = names.collect();
    for (count, status) in [(99, 200), (100, 400), (5_000, 400)] {
        let blobs = names.iter().take(count);
        let blobs = blobs.map(|name| (name.as_str(), TEXT, &b"x"[..]));
        let parts: Vec<_> = [EVENT].into_iter().chain(blobs).collect();
        assert_eq!(send(&env, &body(&parts)).status, status, "{count} blobs");
    }
    assert_eq!(env.rows().events.len(), 1);
}

#[test]
fn bodies_that_cannot_be_split_into_parts_are_refused() {
    let env = TestEnv::start();
    let whole = body(&[EVENT]);
    let table: [(&str, &[u8], &str); 5] = [
        ("nothing", b"", "empty_body"),
        ("JSON", b"{}", "invalid_body"),
        (
            "cut within the last boundary",
            &whole[..whole.len() - 5],
            "invalid_body",
        ),
        (
            "cut within the content",
            &whole[..whole.len() - 30],
            "invalid_body",
        ),
        ("cut within a head", &whole[..40], "invalid_body"),
    ];
    for (what, sent, code) in table {
        let answer = send(&env, sent);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, code),
            "{what}"
        );
    }
    assert_eq!(
        send(&env, &gzip(&whole)).status,
        200,
        "compressed as a whole"
    );
}

#[test]
fn other_content_types_are_refused() {
    let env = TestEnv::start();
    let bearer = format!("Bearer {KEY}");
    let table = [
        ("application/json", 415, "unsupported_media_type"),
        ("multipart/mixed; boundary=x", 415, "unsupported_media_type"),
        ("rubbish", 415, "unsupported_media_type"),
        ("multipart/form-data", 400, "invalid_body"),
        ("multipart/form-data; boundary=", 400, "invalid_body"),
        ("multipart/form-data; boundary=another", 400, "invalid_body"),
    ];
    for (content_type, status, code) in table {
        let headers = [
            ("Content-Type", content_type),
            ("Authorization", bearer.as_str()),
        ];
        let sent = body(&[EVENT]);
        let answer = env.client().post("/i/v0/ai", &headers, &sent);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{content_type}"
        );
    }
    assert_eq!(env.rows().events.len(), 0);
}

#[test]
fn an_event_past_its_limit_is_too_large_and_kept_up_to_four_times_it() {
    let env = TestEnv::start();
    for (bytes, kept) in [(1 << 20, 1), (6 << 20, 0), (19 << 20, 0)] {
        let long = vec![b'x'; bytes];
        let sent = body(&[EVENT, blob(TEXT, &long)]);
        let before = env.rows().rejected.len();
        let answer = send(&env, &sent);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "event_too_large"),
            "{bytes}"
        );
        let detail = answer.json()["detail"].to_string();
        assert!(detail.contains("1048576 bytes"), "{detail}");
        assert_eq!(env.rows().rejected.len() - before, kept, "{bytes}");
    }
    assert_eq!(env.rows().events.len(), 0);
}

#[test]
fn the_key_comes_from_the_head_or_the_event() {
    let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
    let naming =
        |name: &str, key: &str| format!(r#"{{"event":"e","distinct_id":"d","{name}":{key}}}"#);
    let keyed = naming("api_key", &format!("\"{KEY}\""));
    let null = naming("api_key", "null");
    let others = naming("api_\\u006bey", "\"phc_another\"");
    let others_token = naming("token", "\"phc_another\"");
    let number = naming("api_key", "1");
    let table = [
        (Some(KEY), BARE, 200, ""),
        (None, keyed.as_bytes(), 200, ""),
        (Some(KEY), keyed.as_bytes(), 200, ""),
        (Some(KEY), null.as_bytes(), 200, ""),
        (Some(KEY), b"{}", 400, "missing_event"),
        (None, BARE, 401, "missing_api_key"),
        (Some("phc_nobodys"), BARE, 401, "unknown_api_key"),
        (Some("phx_personal"), BARE, 401, "invalid_api_key"),
        (Some(KEY), others.as_bytes(), 401, "multiple_api_keys"),
        (Some(KEY), others_token.as_bytes(), 401, "multiple_api_keys"),
        (Some(KEY), number.as_bytes(), 401, "multiple_api_keys"),
        (
            Some("phc_another"),
            keyed.as_bytes(),
            401,
            "multiple_api_keys",
        ),
    ];
    let env = TestEnv::start();
    for (key, content, status, code) in table {
        let what = format!("{key:?} {}", String::from_utf8_lossy(content));
        let mut headers = vec![("Content-Type", content_type.as_str())];
        let bearer = key.map(|key| format!("Bearer {key}"));
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        let sent = body(&[event(content)]);
        let answer = env.client().post("/i/v0/ai/", &headers, &sent);
        assert_eq!(answer.status, status, "{what}");
        if status != 200 {
            assert_eq!(answer.code(), code, "{what}");
        }
    }
    assert_eq!(env.rows().events.len(), 4);
}
