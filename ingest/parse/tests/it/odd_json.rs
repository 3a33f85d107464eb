//! Section 2: odd JSON that real SDKs send is repaired; the error in broken JSON is named exactly.

use crate::support::{KEY, accepted, batch_of, context, events, parse};
use millrace_parse::ParseError;

fn with_value(value: &[u8]) -> Vec<u8> {
    let body = batch_of(r#","properties":{"v":VALUE}"#);
    let (before, after) = body.split_once("VALUE").unwrap();
    [before.as_bytes(), value, after.as_bytes()].concat()
}

#[test]
fn numbers_that_are_none_become_null_with_a_warning() {
    for word in ["NaN", "Infinity", "-Infinity"] {
        let parsed = accepted(with_value(word.as_bytes()), &context());
        assert_eq!(events(&parsed.batch)[0].properties, r#"{"v":null}"#);
        let codes: Vec<_> = parsed
            .report
            .warnings
            .iter()
            .map(|w| (w.index, w.code))
            .collect();
        assert_eq!(codes, [(0, "repaired_json")]);
    }
}

#[test]
fn only_the_odd_event_is_warned_of() {
    let event =
        |value: &str| format!(r#"{{"event":"e","distinct_id":"d","properties":{{"v":{value}}}}}"#);
    let list = [
        event("1"),
        event("[NaN,NaN]"),
        event(r#""NaN""#),
        event("-Infinity"),
    ]
    .join(",");
    let body = format!(r#"{{"token":"{KEY}","x":NaN,"batch":[{list}]}}"#);
    let parsed = accepted(body, &context());
    let indices: Vec<_> = parsed.report.warnings.iter().map(|w| w.index).collect();
    assert_eq!((parsed.accepted, indices), (4, vec![1, 3]));
    let stored: Vec<_> = events(&parsed.batch)
        .into_iter()
        .map(|e| e.properties)
        .collect();
    assert_eq!(
        stored,
        [
            r#"{"v":1}"#,
            r#"{"v":[null,null]}"#,
            r#"{"v":"NaN"}"#,
            r#"{"v":null}"#
        ]
    );
}

#[test]
fn a_number_that_is_none_is_no_distinct_id() {
    let body = format!(r#"{{"token":"{KEY}","batch":[{{"event":"e","distinct_id":NaN}}]}}"#);
    assert_eq!(
        crate::support::rejection(body, &context()),
        "missing_distinct_id batch[0].properties.distinct_id"
    );
}

#[test]
fn cesu_8_becomes_utf_8() {
    let parsed = accepted(with_value(b"\"\xed\xa0\xbc\xed\xbe\x89!\""), &context());
    assert_eq!(events(&parsed.batch)[0].properties, r#"{"v":"🎉!"}"#);
    assert_eq!(parsed.report.warning_count, 0);
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let body = [b"\xef\xbb\xbf".as_slice(), batch_of("").as_bytes()].concat();
    assert_eq!(accepted(body, &context()).accepted, 1);
}

#[test]
fn lone_surrogates_cost_only_names_and_ids() {
    let body = format!(
        r#"{{"token":"{KEY}","batch":[{{"event":"\ud83d","distinct_id":"d"}},{{"event":"e","distinct_id":"d","properties":{{"a":"\ud83d"}}}}]}}"#
    );
    let parsed = accepted(body, &context());
    assert_eq!(parsed.report.rejected[0].code, "invalid_event");
    assert_eq!(events(&parsed.batch)[0].properties, r#"{"a":"\ud83d"}"#);
}

#[test]
fn a_body_in_another_format_is_refused_with_what_to_do() {
    let lines = "{\"event\":\"a\"}\n{\"event\":\"b\"}\n";
    let marked = format!("\u{feff}{lines}");
    let utf_16: Vec<u8> = "{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked_utf_16 = [&b"\xff\xfe"[..], &utf_16].concat();
    let long_lines = format!("{{\"event\":\"{}\"}}\n{{}}", "a".repeat(100_000));
    let table: [(&[u8], &str); 12] = [
        (
            lines.as_bytes(),
            "Send the events in one array, as `batch`.",
        ),
        (
            marked.as_bytes(),
            "Send the events in one array, as `batch`.",
        ),
        (
            b"--b\r\nContent-Disposition: form-data",
            "accepts an event in parts.",
        ),
        (
            b"data=eyJ9",
            "Send it as application/x-www-form-urlencoded.",
        ),
        (&utf_16, "Send UTF-8."),
        (&marked_utf_16, "Send UTF-8."),
        // Broken JSON, and none of these.
        (b"{\"batch\":[{}\n{}]}", "at byte 13."),
        (
            long_lines.as_bytes(),
            "JSON lines. Send the events in one array, as `batch`.",
        ),
        // As two members of a gzip body become.
        (
            b"{}{}",
            "are read as one. Send the events in one array, as `batch`.",
        ),
        (
            b"[]\n[]",
            "are read as one. Send the events in one array, as `batch`.",
        ),
        (
            b"{} x",
            "before byte 3, where more follows. Send nothing behind it.",
        ),
        (b"{\n}}", "Send nothing behind it."),
    ];
    for (body, what_to_do) in table {
        let Err(ParseError::Refused(error)) = parse(body, &context()) else {
            panic!("{body:?}");
        };
        assert_eq!(error.status.as_u16(), 400, "{body:?}");
        assert!(error.detail.ends_with(what_to_do), "{}", error.detail);
    }
}

#[test]
fn broken_json_is_refused_with_the_place_of_the_error() {
    let table: [(&[u8], &str, &str); 8] = [
        (b"{\"batch\":[}", "invalid_json", "byte 10"),
        (b"{\"a\":1,}", "invalid_json", "byte 7"),
        (b"{\"a\":nan}", "invalid_json", "byte 5"),
        (b"{\"a\":NaNs}", "invalid_json", "byte 8"),
        (b"[\"a\nb\"]", "invalid_json", "byte 3"),
        (b"[\"\xff\"]", "invalid_utf8", "byte 2"),
        (b"[\"\xed\xa0\xbc\"]", "invalid_utf8", "byte 2"),
        (b"[1,\xc3\xa4]", "invalid_json", "byte 3"),
    ];
    for (body, code, place) in table {
        let Err(ParseError::Refused(error)) = parse(body, &context()) else {
            panic!("{body:?}");
        };
        assert_eq!(error.code, code, "{body:?}");
        assert!(
            error.detail.ends_with(&format!("{place}.")),
            "{}",
            error.detail
        );
        let kind = serde_json::to_value(error.kind).unwrap();
        assert_eq!(kind, "invalid_request");
    }
}

#[test]
fn a_body_in_another_format_gets_advice() {
    let table: [(&[u8], &str); 8] = [
        (b"\x1f\x8b\x08\0\0\0\0\0", "compressed twice"),
        (b"\x28\xb5\x2f\xfd\x04\0", "compressed twice"),
        (b"\x78\x9c\xab\x56", "compressed twice"),
        (b"\x78\x01\xab\x56", "compressed twice"),
        (b"\xff\xfe{\0}\0", "UTF-16"),
        (b"--b\r\n", "multipart/form-data"),
        (b"data=%7B%7D", "a form"),
        (b"{\"event\":\"e\"}\n{\"event\":\"e\"}", "JSON lines"),
    ];
    for (body, advice) in table {
        let Err(ParseError::Refused(error)) = parse(body, &context()) else {
            panic!("{body:?} is read");
        };
        let is_advised = error.detail.contains(advice);
        assert!(is_advised, "{body:?}: {}", error.detail);
    }
}
