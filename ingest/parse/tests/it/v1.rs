//! Section 6: the protocol with results by uuid.

use crate::support::{KEY, NOW, accepted, events, parse, refusal};
use millrace_parse::{Footprint, Outcome, ParseContext, ParseError, Protocol};

fn context() -> ParseContext<'static> {
    ParseContext {
        protocol: Protocol::V1 {
            key: KEY,
            sent_at: None,
            sdk_info: Some("posthog-python/7.91.1"),
        },
        ..crate::support::context()
    }
}

fn uuid(last: u8) -> String {
    format!("01A1F99B-b499-70c4-9505-90a47f19f00{last}")
}

fn event(last: u8, fields: &str) -> String {
    format!(
        r#"{{"event":"e","distinct_id":"d","uuid":"{}"{fields}}}"#,
        uuid(last)
    )
}

fn batch(events: &[String]) -> String {
    let at = "2026-11-20T15:38:18Z";
    format!(r#"{{"created_at":"{at}","batch":[{}]}}"#, events.join(","))
}

#[test]
fn every_event_has_a_result_under_its_own_spelling() {
    let parsed = accepted(
        batch(&[
            event(1, ""),
            event(2, r#","distinct_id":"NULL""#),
            event(3, r#","event":"""#),
            event(4, r#","timestamp":"2030-01-01""#),
        ]),
        &context(),
    );
    let results: Vec<_> = parsed
        .results
        .iter()
        .map(|result| {
            (
                result.uuid.as_str().to_owned(),
                result.outcome,
                result.details,
            )
        })
        .collect();
    assert_eq!(
        results,
        [
            (uuid(1), Outcome::Ok, None),
            (
                uuid(2),
                Outcome::Warning,
                Some("person_processing_disabled")
            ),
            (uuid(3), Outcome::Drop, Some("missing_event")),
            (uuid(4), Outcome::Warning, Some("future_timestamp")),
        ]
    );
    assert_eq!((parsed.accepted, parsed.report.rejected_count), (3, 1));
}

#[test]
fn uuids_are_there_valid_and_different_or_nothing_is_stored() {
    let table = [
        (r#","uuid":null"#, "missing_uuid"),
        (r#","uuid":" ""#, "missing_uuid"),
        (r#","uuid":5"#, "invalid_uuid"),
        (r#","uuid":"x""#, "invalid_uuid"),
        (
            r#","uuid":"01a1f99bb49970c4950590a47f19f001""#,
            "repeated_uuid",
        ),
    ];
    for (fields, code) in table {
        let body = batch(&[event(1, ""), event(2, ""), event(3, fields)]);
        let Err(ParseError::Refused(error)) = parse(&body, &context()) else {
            panic!("{body}");
        };
        assert_eq!((error.code, error.status.as_u16()), (code, 400), "{body}");
        assert_eq!(error.attr.as_deref(), Some("batch[2].uuid"), "{body}");
    }
}

#[test]
fn the_key_is_the_headers_and_the_shape_is_a_batch() {
    let with = |key| ParseContext {
        protocol: Protocol::V1 {
            key,
            sent_at: None,
            sdk_info: None,
        },
        ..context()
    };
    let body = batch(&[event(1, "")]);
    assert_eq!(refusal(&body, &with("phx_personal")), "401 invalid_api_key");
    assert_eq!(refusal(&body, &with("phc_other")), "401 unknown_api_key");
    assert_eq!(refusal("[]", &context()), "400 invalid_body");
    assert_eq!(refusal(event(1, ""), &context()), "400 invalid_body");
    assert_eq!(refusal(r#"{"batch":[]}"#, &context()), "400 empty_batch");
}

#[test]
fn fields_beside_the_properties_move_into_them() {
    let table = [
        ("", r#"{"$lib":"posthog-python","$lib_version":"7.91.1"}"#),
        (
            r#","properties":{"$lib":"own","$lib_version":"1"}"#,
            r#"{"$lib":"own","$lib_version":"1"}"#,
        ),
        (
            r#","session_id":"s","window_id":"w\"","options":{},"properties":{"a":1}"#,
            r#"{"$session_id":"s","$window_id":"w\"","$lib":"posthog-python","$lib_version":"7.91.1","a":1}"#,
        ),
        (
            r#","options":{"cookieless_mode":true,"process_person_profile":false,"product_tour_id":null}"#,
            r#"{"$cookieless_mode":true,"$process_person_profile":false,"$lib":"posthog-python","$lib_version":"7.91.1"}"#,
        ),
        (
            r#","session_id":"s","properties":{"$session_id":"own","$lib":"l"}"#,
            r#"{"$lib_version":"7.91.1","$session_id":"own","$lib":"l"}"#,
        ),
    ];
    for (fields, expected) in table {
        let parsed = accepted(batch(&[event(1, fields)]), &context());
        assert_eq!(events(&parsed.batch)[0].properties, expected, "{fields}");
    }
}

#[test]
fn the_header_says_when_it_was_sent() {
    let context = ParseContext {
        protocol: Protocol::V1 {
            key: KEY,
            sent_at: Some("2026-11-20T15:28:18.100000+00:00"),
            sdk_info: None,
        },
        ..context()
    };
    let ten_minutes = 600_000_000;
    let table = [
        ("", ten_minutes),
        (r#","options":{"disable_skew_correction":true}"#, 0),
        (
            r#","options":{"disable_skew_correction":false}"#,
            ten_minutes,
        ),
        (r#","options":[]"#, ten_minutes),
    ];
    for (fields, shift) in table {
        let fields = format!(r#","timestamp":"2026-11-20T15:38:18.100Z"{fields}"#);
        let parsed = accepted(batch(&[event(1, &fields)]), &context);
        assert_eq!(
            events(&parsed.batch)[0].timestamp.0 - NOW.0,
            shift,
            "{fields}"
        );
    }
}

#[test]
fn the_name_of_an_sdk_takes_little_space_in_each_event_however_long_it_is() {
    let table = [
        (
            "a/1".to_owned(),
            r#"{"$lib":"a","$lib_version":"1"}"#.to_owned(),
        ),
        (
            format!("{}/{}", "a".repeat(60_000), "1".repeat(129)),
            format!(
                r#"{{"$lib":"{}","$lib_version":"{}"}}"#,
                "a".repeat(128),
                "1".repeat(128)
            ),
        ),
        // Never half a letter.
        (
            format!("{}/1", "é".repeat(100) + "a"),
            format!(r#"{{"$lib":"{}","$lib_version":"1"}}"#, "é".repeat(64)),
        ),
        (
            format!("a{}/1", "é".repeat(100)),
            format!(r#"{{"$lib":"a{}","$lib_version":"1"}}"#, "é".repeat(63)),
        ),
    ];
    for (sdk_info, expected) in &table {
        let context = ParseContext {
            protocol: Protocol::V1 {
                key: KEY,
                sent_at: None,
                sdk_info: Some(sdk_info),
            },
            ..context()
        };
        let parsed = accepted(batch(&[event(1, "")]), &context);
        assert_eq!(events(&parsed.batch)[0].properties, *expected);
    }
}

#[test]
fn a_footprint_has_space_for_what_a_head_adds_to_each_event() {
    let event = |number: u32| {
        let uuid = uuid::Uuid::from_u128(u128::from(number));
        format!(r#"{{"event":"e","distinct_id":"d","uuid":"{uuid}"}}"#)
    };
    let body = batch(&(1..=1_000).map(event).collect::<Vec<_>>());
    let quotes = "\"".repeat(1_000);
    let long = format!("{quotes}/{quotes}");
    let address = "2001:db8:1111:2222:3333:4444:5555:6666".parse().unwrap();
    for (sdk_info, rows_min) in [
        (Some(long.as_str()), 500_000),
        (Some("\"\"\"\"/\"\"\"\""), 80_000),
        (None, 80_000),
    ] {
        let context = ParseContext {
            protocol: Protocol::V1 {
                key: KEY,
                sent_at: None,
                sdk_info,
            },
            client_ip: Some(address),
            ..context()
        };
        let bytes_max = Footprint::of(body.as_bytes()).bytes_max(1_000, context.protocol);
        let rows = accepted(&body, &context).batch.bytes();
        assert!(rows > rows_min, "{rows} for {sdk_info:?}");
        // Buffers of rows may have doubled as they grew.
        assert!(
            bytes_max > 2 * rows,
            "{bytes_max} for {rows} and {sdk_info:?}"
        );
    }
}
