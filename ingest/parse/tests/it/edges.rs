//! Section 9: edge cases, decided; and the limits of section 2.

use crate::support::{
    KEY, accepted, batch_of, context, events, parse, refusal, rejected, rejection,
};
use millrace_parse::{Limits, ParseContext, ParseError};
use millrace_rows::Lane;

/// Builds a batch whose event has a property nested so deep that `depth` brackets are open at once.
fn nested(depth: usize) -> String {
    let inner = depth - 4;
    let value = "[".repeat(inner) + &"]".repeat(inner);
    batch_of(&format!(r#","properties":{{"a":{value}}}"#))
}

#[test]
fn nesting_ends_at_128_open_brackets_the_envelope_included() {
    assert_eq!(accepted(nested(128), &context()).accepted, 1);
    let objects = r#"{"a":"#.repeat(124) + "1" + &"}".repeat(124);
    let body = batch_of(&format!(r#","properties":{{"a":{objects}}}"#));
    assert_eq!(accepted(&body, &context()).accepted, 1);
    let table = [
        nested(129),
        body.replacen(r#"{"a":1}"#, r#"{"a":{}}"#, 1)
            .replacen("1", "[]", 0)
            .replacen(r#":1}"#, ":[]}", 1),
        "[".repeat(1 << 20),
        r#"{"a":"#.repeat(1 << 18),
        "[".repeat(129) + &"]".repeat(129),
        r#"[{"x":"#.to_owned() + &"[".repeat(127) + &"]".repeat(127) + "}]",
        r#"{"x":"#.to_owned() + &"[".repeat(128) + &"]".repeat(128) + "}",
        r#"{"batch":[{"options":"#.to_owned() + &"[".repeat(126) + &"]".repeat(126) + "}]}",
    ];
    for body in table {
        assert_eq!(
            refusal(&body, &context()),
            "400 json_too_deep",
            "{:.60}",
            body
        );
    }
}

#[test]
fn an_event_past_its_limit_of_bytes_is_rejected_alone() {
    let limits = Limits {
        event_bytes_max: 60,
        ..Limits::default()
    };
    let context = ParseContext {
        limits,
        ..context()
    };
    let event = |padding: usize| {
        format!(
            r#"{{"event":"e","distinct_id":"d","x":"{}"}}"#,
            "x".repeat(padding)
        )
    };
    assert_eq!(event(22).len(), 60);
    let body = format!(
        r#"{{"token":"{KEY}","batch":[{},{}]}}"#,
        event(22),
        event(23)
    );
    let parsed = accepted(body, &context);
    assert_eq!(parsed.accepted, 1);
    assert_eq!(parsed.report.rejected[0].code, "event_too_large");
    assert_eq!(parsed.report.rejected[0].attr, "batch[1]");
    let detail = &parsed.report.rejected[0].detail;
    assert!(detail.contains("larger than the 60 bytes"), "{detail}");
    let row = &rejected(&parsed.batch)[0];
    assert_eq!(row.raw, event(23));
    assert_eq!(row.detail, *detail);
}

#[test]
fn the_first_4_mib_of_an_event_that_is_too_large_are_kept_up_to_a_whole_character() {
    const KEPT: usize = 4 << 20;
    // Bytes before the text.
    let head = r#"{"event":"e","distinct_id":"d","x":""#;
    let event = |padding: usize, text: &str| format!(r#"{head}{}{text}"}}"#, "x".repeat(padding));
    let space = KEPT - head.len();
    let table = [
        ("all of it fits", event(space - 2, ""), KEPT),
        ("a byte more", event(space - 1, ""), KEPT),
        (
            "the cut is between characters",
            event(space, "\u{e9}"),
            KEPT,
        ),
        (
            "in a character of two",
            event(space - 1, "\u{e9}"),
            KEPT - 1,
        ),
        ("of four", event(space - 3, "\u{1f980}"), KEPT - 3),
    ];
    for (what, event, expected) in table {
        let body = format!(r#"{{"token":"{KEY}","batch":[{event}]}}"#);
        let parsed = accepted(body, &context());
        let row = &rejected(&parsed.batch)[0];
        assert_eq!(row.code, "event_too_large", "{what}");
        assert_eq!(row.raw.len(), expected, "{what}");
        assert!(event.starts_with(&row.raw), "{what}");
        let is_told = row.detail.ends_with("; the first 4 MiB of it are kept.");
        assert_eq!(is_told, event.len() > KEPT, "{what}: {}", row.detail);
    }
}

#[test]
fn attr_names_the_place_in_each_shape() {
    let event = |number: usize| {
        format!(r#"{{"event":"e","distinct_id":"d","timestamp":{number},"token":"{KEY}"}}"#)
    };
    let table = [
        (event(1), "timestamp"),
        (format!("[{}]", event(1)), "[0].timestamp"),
        (
            format!(r#"{{"token":"{KEY}","batch":[{}]}}"#, event(1)),
            "batch[0].timestamp",
        ),
    ];
    for (body, attr) in table {
        assert_eq!(
            rejection(&body, &context()),
            format!("invalid_timestamp {attr}")
        );
    }
}

#[test]
fn an_import_is_declared_for_the_whole_request() {
    let query = ParseContext {
        historical_query: true,
        ..context()
    };
    let event = r#"{"event":"e","distinct_id":"d"}"#;
    let table = [
        (
            format!(r#"{{"token":"{KEY}","historical_migration":true,"batch":[{event}]}}"#),
            context(),
            true,
        ),
        (
            format!(r#"{{"token":"{KEY}","batch":[{event}],"historical_migration":true}}"#),
            context(),
            true,
        ),
        (
            format!(r#"{{"token":"{KEY}","historical_migration":false,"batch":[{event}]}}"#),
            context(),
            false,
        ),
        (
            format!(r#"{{"token":"{KEY}","historical_migration":null,"batch":[{event}]}}"#),
            query,
            true,
        ),
        (
            format!(
                r#"{{"token":"{KEY}","event":"e","distinct_id":"d","historical_migration":true}}"#
            ),
            context(),
            true,
        ),
        (
            format!(r#"[{{"token":"{KEY}","event":"e","distinct_id":"d"}}]"#),
            query,
            true,
        ),
    ];
    for (body, context, historical) in table {
        let parsed = accepted(&body, &context);
        let lane = if historical {
            Lane::Historical
        } else {
            Lane::Live
        };
        assert_eq!(
            (
                parsed.batch.lane,
                events(&parsed.batch)[0].historical_migration
            ),
            (lane, historical),
            "{body}"
        );
    }
}

#[test]
fn an_import_declared_wrongly_is_refused() {
    for value in [r#""true""#, "1", "[]", "{}"] {
        for body in [
            format!(r#"{{"token":"{KEY}","historical_migration":{value},"batch":[{{}}]}}"#),
            format!(r#"{{"token":"{KEY}","event":"e","historical_migration":{value}}}"#),
        ] {
            let Err(ParseError::Refused(error)) = parse(&body, &context()) else {
                panic!("{body}");
            };
            assert_eq!(error.code, "invalid_historical_migration", "{body}");
            assert_eq!(error.attr.as_deref(), Some("historical_migration"));
        }
    }
    for value in ["true", "false", r#""true""#, "1"] {
        let rejected = rejection(
            batch_of(&format!(r#","historical_migration":{value}"#)),
            &context(),
        );
        assert_eq!(
            rejected, "invalid_historical_migration batch[0].historical_migration",
            "{value}"
        );
    }
    assert_eq!(
        accepted(batch_of(r#","historical_migration":null"#), &context()).accepted,
        1
    );
}
