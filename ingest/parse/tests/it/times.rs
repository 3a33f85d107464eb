//! Section 4: timestamps, clock skew, offsets, and the rules of historical events.

use crate::support::{KEY, NOW, accepted, batch_of, context, events, rejection, row};
use millrace_parse::ParseContext;
use millrace_rows::Micros;

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600 * SECOND;

fn historical() -> ParseContext<'static> {
    ParseContext {
        historical_query: true,
        ..context()
    }
}

fn warnings(body: &str, context: &ParseContext<'_>) -> Vec<&'static str> {
    let report = accepted(body, context).report;
    report.warnings.iter().map(|warning| warning.code).collect()
}

/// Builds a batch whose only event happened at NOW and that was sent at `sent`.
fn sent(key: &str, sent: &str, properties: &str) -> String {
    format!(
        r#"{{"token":"{KEY}","{key}":"{sent}","batch":[{{"event":"e","distinct_id":"d",
        "timestamp":"2026-11-20T15:38:18.100Z","properties":{{{properties}}}}}]}}"#
    )
}

#[test]
fn a_timestamp_is_stored_in_microseconds() {
    let table = [
        ("2026-11-20T15:38:18.1Z", NOW.0),
        (" 2026-11-20T15:38:18.1Z ", NOW.0),
        ("2026-11-20T21:08:18,1+05:30", NOW.0),
        (r"2026-11-20T15:38:18.1\u005a", NOW.0),
        (
            "2026-11-20",
            NOW.0 - (15 * HOUR + 38 * 60 * SECOND + 18_100_000),
        ),
        ("1970-01-01", 0),
    ];
    for (text, micros) in table {
        let row = row(batch_of(&format!(r#","timestamp":"{text}""#)), &context());
        assert_eq!(
            (row.timestamp, row.created_at),
            (Micros(micros), NOW),
            "{text}"
        );
    }
}

/// Escapes were once trimmed of more white space; found by writing the model of the fuzz target.
#[test]
fn an_escaped_timestamp_is_trimmed_like_a_plain_one() {
    for (space, is_trimmed) in [("\u{a0}", false), ("\u{2003}", false), (" ", true)] {
        let escaped: String = space
            .encode_utf16()
            .map(|unit| format!("\\u{unit:04x}"))
            .collect();
        for space in [space, &escaped] {
            let body = batch_of(&format!(r#","timestamp":"2026-11-20T15:38:18.1Z{space}""#));
            let accepted = accepted(&body, &context()).accepted == 1;
            assert_eq!(accepted, is_trimmed, "{space:?}");
        }
    }
}

#[test]
fn a_wrong_clock_is_set_right_and_transit_is_left_alone() {
    let table = [
        ("sent_at", "2026-11-20T15:38:18.100Z", 0),
        ("sent_at", "2026-11-20T15:37:18.100Z", 0),
        ("sent_at", "2026-11-20T15:37:18.099999Z", 60_000_001),
        ("sent_at", "2026-11-20T14:38:18.100Z", HOUR),
        ("sent_at", "2026-11-20T16:38:18.100Z", -HOUR),
        ("sentAt", "2026-11-20T14:38:18.100", HOUR),
        ("sent_at", "soon", 0),
        ("sent_at", "", 0),
    ];
    for (key, at, shift) in table {
        let row = row(sent(key, at, ""), &context());
        assert_eq!(row.timestamp.0 - NOW.0, shift, "{key} {at}");
    }
}

#[test]
fn the_clock_is_not_set_right_for_imports_or_on_request() {
    let body = sent("sent_at", "2026-11-20T14:38:18.100Z", "");
    assert_eq!(row(&body, &historical()).timestamp, NOW);
    let table = [
        (r#""$ignore_sent_at":true"#, 0),
        (r#""$ignore_sent_at":false"#, HOUR),
        (r#""$ignore_sent_at":"true""#, HOUR),
        (r#""$ignore_sent_at":true,"$ignore_sent_at":null"#, HOUR),
    ];
    for (properties, shift) in table {
        let body = sent("sent_at", "2026-11-20T14:38:18.100Z", properties);
        assert_eq!(
            row(body, &context()).timestamp.0 - NOW.0,
            shift,
            "{properties}"
        );
    }
}

#[test]
fn the_query_says_when_it_was_sent_unless_the_body_does() {
    let hour_ago = (NOW.0 - HOUR) / 1_000;
    let (millis, seconds) = (hour_ago.to_string(), (hour_ago / 1_000).to_string());
    let table = [
        (millis.as_str(), "ignored", HOUR),
        (seconds.as_str(), "ignored", HOUR + 100_000),
        (millis.as_str(), "2026-11-20T15:38:18Z", 0),
        ("soon", "ignored", 0),
    ];
    for (query, sent_at, shift) in table {
        let context = ParseContext {
            sent_at_query: Some(query),
            ..context()
        };
        let row = row(sent("sent_at", sent_at, ""), &context);
        assert_eq!(row.timestamp.0 - NOW.0, shift, "{query} {sent_at}");
    }
}

#[test]
fn a_single_event_may_say_when_it_was_sent() {
    let body = format!(
        r#"{{"api_key":"{KEY}","event":"e","distinct_id":"d","timestamp":"2026-11-20T15:38:18.100Z",
        "sent_at":"2026-11-20T14:38:18.100Z"}}"#
    );
    assert_eq!(row(body, &context()).timestamp.0 - NOW.0, HOUR);
}

#[test]
fn without_a_timestamp_the_received_time_less_the_offset_counts() {
    let table = [
        (r#","offset":5000"#, 5 * SECOND),
        (r#","offset":0"#, 0),
        (r#","offset":-5"#, 0),
        (r#","offset":1.5"#, 0),
        (r#","offset":"5000""#, 0),
        (r#","offset":99999999999999999999"#, 0),
        (r#","offset":9000000000000"#, 0),
        (r#","offset":5000,"timestamp":"""#, 5 * SECOND),
        (
            r#","offset":5000,"timestamp":"2026-11-20T15:38:18.100Z""#,
            0,
        ),
    ];
    for (fields, before) in table {
        let sent_long_ago = ParseContext {
            sent_at_query: fields
                .contains("timestamp\":\"\"")
                .then_some("1795180000000"),
            ..context()
        };
        let row = row(batch_of(fields), &sent_long_ago);
        assert_eq!(NOW.0 - row.timestamp.0, before, "{fields}");
    }
}

#[test]
fn the_future_ends_after_23_hours() {
    let body = |at: &str| batch_of(&format!(r#","timestamp":"{at}""#));
    let allowed = body("2026-11-21T14:38:18.100Z");
    assert_eq!(row(&allowed, &context()).timestamp.0, NOW.0 + 23 * HOUR);
    assert_eq!(row(&allowed, &historical()).timestamp.0, NOW.0 + 23 * HOUR);
    for at in ["2026-11-21T14:38:18.100001Z", "9999-12-31T23:59:59-12:00"] {
        assert_eq!(row(body(at), &context()).timestamp, NOW, "{at}");
        assert_eq!(
            warnings(&body(at), &context()),
            ["future_timestamp"],
            "{at}"
        );
        let rejected = rejection(body(at), &historical());
        assert_eq!(rejected, "timestamp_in_future batch[0].timestamp", "{at}");
    }
}

#[test]
fn a_historical_event_without_timestamp_is_stored_with_a_warning() {
    assert_eq!(warnings(&batch_of(""), &context()), Vec::<&str>::new());
    assert_eq!(
        warnings(&batch_of(""), &historical()),
        ["missing_timestamp"]
    );
    assert_eq!(row(batch_of(""), &historical()).uuid.get_version_num(), 7);
}

#[test]
fn a_historical_event_sent_again_gets_the_same_uuid() {
    let fields = r#","timestamp":"2023-01-02","properties":{"a":1}"#;
    let later = ParseContext {
        received_at: Micros(NOW.0 + HOUR),
        request_id: uuid::Uuid::max(),
        client_ip: Some([192, 0, 2, 1].into()),
        ..historical()
    };
    let first = row(batch_of(fields), &historical());
    assert_eq!(first.uuid, row(batch_of(fields), &later).uuid);
    assert_eq!(
        first.uuid.to_string(),
        "fe20d952-7b8e-586d-a93f-e6130683a504"
    );
    let others = [
        r#","timestamp":"2023-01-02T00:00","properties":{"a":1}"#,
        r#","timestamp":"2023-01-02","properties":{"a": 1}"#,
        r#","timestamp":"2023-01-02","properties":{"a":1},"event":"f""#,
        r#","timestamp":"2023-01-02","properties":{"a":1},"distinct_id":"f""#,
    ];
    for other in others {
        assert_ne!(
            first.uuid,
            row(batch_of(other), &historical()).uuid,
            "{other}"
        );
    }
    let own = format!(r#"{fields},"uuid":"01a1f99b-b499-70c4-9505-90a47f19f05a""#);
    assert_eq!(row(batch_of(&own), &historical()).uuid.get_version_num(), 7);
}

#[test]
fn rows_of_two_months_are_two_groups() {
    let event = |at: &str| format!(r#"{{"event":"e","distinct_id":"d","timestamp":"{at}"}}"#);
    let list = [
        event("2026-10-31"),
        event("2026-11-01"),
        event("2026-10-01"),
    ]
    .join(",");
    let parsed = accepted(
        format!(r#"{{"token":"{KEY}","batch":[{list}]}}"#),
        &context(),
    );
    let groups: Vec<_> = parsed
        .batch
        .groups
        .iter()
        .map(|g| (g.month.0, g.rows))
        .collect();
    assert_eq!(groups, [(202_610, 2), (202_611, 1)]);
    assert_eq!(events(&parsed.batch).len(), 3);
}
