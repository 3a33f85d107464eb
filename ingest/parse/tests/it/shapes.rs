//! Sections 2 and 3: shapes of bodies, and the project they are for.

use crate::support::{KEY, PROJECT, accepted, context, events, refusal};
use millrace_parse::{Limits, ParseContext, ParseError};

const EVENT: &str = r#"{"event":"e","distinct_id":"d"}"#;

#[test]
fn every_shape_is_read_on_every_path() {
    let table = [
        (
            format!(r#"{{"api_key":"{KEY}","batch":[{EVENT},{EVENT}]}}"#),
            2,
        ),
        (format!(r#"{{"batch":[{EVENT}],"token":"{KEY}"}}"#), 1),
        (
            format!(" \n{{\"batch\" : [ {EVENT}\t,\r{EVENT} ] , \"token\":\"{KEY}\"}} "),
            2,
        ),
        (
            format!(r#"{{"batch":[1],"b\u0061tch":[{EVENT}],"token":"{KEY}"}}"#),
            1,
        ),
        (
            format!(r#"[{{"event":"e","distinct_id":"d","token":"{KEY}"}},{EVENT}]"#),
            2,
        ),
        (
            format!(r#"{{"event":"e","distinct_id":"d","api_key":"{KEY}"}}"#),
            1,
        ),
        (
            format!(r#"{{"event":"e","properties":{{"distinct_id":"d","token":"{KEY}"}}}}"#),
            1,
        ),
    ];
    for (body, count) in table {
        for engage in [false, true] {
            let context = ParseContext {
                engage,
                ..context()
            };
            let parsed = accepted(&body, &context);
            let rows = events(&parsed.batch);
            assert_eq!((rows.len(), rows[0].event.as_str()), (count, "e"), "{body}");
            assert_eq!((parsed.project_id, rows[0].team_id), (PROJECT, PROJECT.0));
        }
    }
}

#[test]
fn engage_needs_no_name_for_a_single_object() {
    let engage = ParseContext {
        engage: true,
        ..context()
    };
    let single = format!(r#"{{"token":"{KEY}","$distinct_id":"d","$set":{{"a":1}}}}"#);
    let rows = events(&accepted(&single, &engage).batch);
    assert_eq!(rows[0].event, "$identify");
    assert_eq!(rows[0].properties, r#"{"$set":{"a":1}}"#);
    let refused = [
        (single.clone(), context()),
        (
            format!(r#"{{"token":"{KEY}","distinct_id":"d","event":" "}}"#),
            engage,
        ),
        (format!(r#"[{single}]"#), engage),
        (format!(r#"{{"batch":[{single}],"token":"{KEY}"}}"#), engage),
    ];
    for (body, context) in refused {
        let report = accepted(&body, &context).report;
        assert_eq!(report.rejected[0].code, "missing_event", "{body}");
    }
}

#[test]
fn wrong_shapes_are_refused_as_a_whole() {
    let key = format!(r#""token":"{KEY}""#);
    let table = [
        ("".to_owned(), "400 invalid_json"),
        (" ".to_owned(), "400 invalid_json"),
        ("hello".to_owned(), "400 invalid_json"),
        (r#"{"event":"e""#.to_owned(), "400 invalid_json"),
        ("1".to_owned(), "400 invalid_body"),
        ("null".to_owned(), "400 invalid_body"),
        (r#""text""#.to_owned(), "400 invalid_body"),
        (format!(r#"{{"batch":{{}},{key}}}"#), "400 invalid_body"),
        (format!(r#"{{"batch":null,{key}}}"#), "400 invalid_body"),
        (format!(r#"{{"batch":"[]",{key}}}"#), "400 invalid_body"),
        ("[]".to_owned(), "400 empty_batch"),
        (format!(r#"{{"batch":[],{key}}}"#), "400 empty_batch"),
        (
            format!(r#"{{"batch":[{EVENT}],"batch":[],{key}}}"#),
            "400 empty_batch",
        ),
    ];
    for (body, expected) in table {
        assert_eq!(refusal(&body, &context()), expected, "{body}");
    }
}

#[test]
fn an_element_that_is_no_object_costs_only_itself() {
    let body = format!(r#"{{"token":"{KEY}","batch":[1,{EVENT},"a\"b",[{{}}],null]}}"#);
    let parsed = accepted(&body, &context());
    assert_eq!(parsed.accepted, 1);
    let rejected: Vec<_> = parsed
        .report
        .rejected
        .iter()
        .map(|r| (r.code, r.attr.as_str()))
        .collect();
    let code = "invalid_event";
    assert_eq!(
        rejected,
        [
            (code, "batch[0]"),
            (code, "batch[2]"),
            (code, "batch[3]"),
            (code, "batch[4]")
        ]
    );
    let raw: Vec<_> = crate::support::rejected(&parsed.batch)
        .into_iter()
        .map(|r| r.raw)
        .collect();
    assert_eq!(raw, ["1", r#""a\"b""#, "[{}]", "null"]);
}

#[test]
fn the_key_is_found_wherever_it_is() {
    let table = [
        r#"{"api_key":"phc_test","token":"phc_test","batch":[E]}"#,
        r#"{"api_key":" phc_test ","batch":[E]}"#,
        r#"{"api_key":"phc_\u0074est","token":"phc_test","batch":[E]}"#,
        r#"{"api_key":null,"token":"phc_test","batch":[E]}"#,
        r#"{"api_key":"phc_test","batch":[{"event":"e","distinct_id":"d","api_key":"other"}]}"#,
        r#"{"batch":[{"event":"e","distinct_id":"d","api_key":"phc_test"},E]}"#,
        r#"{"batch":[E,{"event":"e","distinct_id":"d","$token":"phc_test"}]}"#,
        r#"[{"event":"e","distinct_id":"d","token":"phc_test","properties":{"token":"other"}}]"#,
        r#"[{"event":"e","properties":{"distinct_id":"d","token":"phc_test"}},E]"#,
        r#"[{"event":"e","distinct_id":"d","token":"phc_test"},{"event":"e","distinct_id":"d","properties":{"token":5}}]"#,
        r#"{"event":"e","distinct_id":"d","$token":"phc_test"}"#,
    ];
    for body in table {
        let body = body.replace('E', EVENT);
        let parsed = accepted(&body, &context());
        assert_eq!(
            (parsed.project_id, parsed.report.rejected_count),
            (PROJECT, 0),
            "{body}"
        );
    }
}

#[test]
fn a_request_without_one_good_key_is_refused() {
    let long = "x".repeat(65);
    let table = [
        ("", "missing_api_key"),
        (r#","api_key":null"#, "missing_api_key"),
        (r#","api_key":"""#, "invalid_api_key"),
        (r#","api_key":"  ""#, "invalid_api_key"),
        (r#","api_key":5"#, "invalid_api_key"),
        (r#","api_key":"schlüssel""#, "invalid_api_key"),
        (r#","api_key":"\ud83d""#, "invalid_api_key"),
        (r#","api_key":"a\u0000b""#, "invalid_api_key"),
        (&format!(r#","api_key":"{long}""#), "invalid_api_key"),
        (r#","token":"phx_personal""#, "invalid_api_key"),
        (r#","token":"phc_other""#, "unknown_api_key"),
        (
            r#","token":"phc_other","api_key":"phc_test""#,
            "multiple_api_keys",
        ),
    ];
    for (fields, code) in table {
        for body in [
            format!(r#"{{"batch":[{EVENT}]{fields}}}"#),
            format!(r#"{{"event":"e","distinct_id":"d"{fields}}}"#),
            format!(r#"[{{"event":"e","distinct_id":"d"{fields}}}]"#),
        ] {
            assert_eq!(refusal(&body, &context()), format!("401 {code}"), "{body}");
        }
    }
    let two =
        r#"[{"event":"e","token":"phc_test"},{"event":"e","properties":{"token":"phc_other"}}]"#;
    assert_eq!(refusal(two, &context()), "401 multiple_api_keys");
}

#[test]
fn events_agree_on_a_key_however_each_spells_it() {
    let events = |keys: &[&str]| {
        let event = |key: &&str| format!(r#"{{"event":"e","distinct_id":"d","token":"{key}"}}"#);
        let events: Vec<_> = keys.iter().map(event).collect();
        format!("[{}]", events.join(","))
    };
    let spaced = format!("{KEY}{}", " ".repeat(10_000));
    let escaped = KEY.replacen('p', "\\u0070", 1);
    let table: [(&[&str], bool); 5] = [
        (&[KEY, KEY], true),
        (&[&spaced, KEY, &escaped, &spaced], true),
        (&[&escaped, &spaced], true),
        (&[&spaced, KEY, "phc_other"], false),
        (&["\\ud83d", KEY], false),
    ];
    for (keys, agree) in table {
        let body = events(keys);
        if agree {
            let events = u32::try_from(keys.len()).unwrap();
            assert_eq!(accepted(body, &context()).accepted, events, "{keys:?}");
        } else {
            assert_eq!(
                refusal(body, &context()),
                "401 multiple_api_keys",
                "{keys:?}"
            );
        }
    }
}

#[test]
fn more_than_a_thousand_events_must_be_as_long_as_events_are() {
    let batch = |list: &str| format!(r#"{{"token":"{KEY}","batch":[{list}{EVENT}]}}"#);
    for short in ["{},", "1,", r#"{"event":"e"},"#] {
        let parsed = accepted(batch(&short.repeat(999)), &context());
        assert_eq!((parsed.accepted, parsed.report.rejected_count), (1, 999));
        let body = batch(&short.repeat(1_100));
        assert_eq!(refusal(body, &context()), "413 body_too_complex", "{short}");
        // Beside long ones there may be more of them.
        let long = format!("{EVENT},").repeat(4_000);
        let parsed = accepted(batch(&(long + &short.repeat(1_100))), &context());
        assert_eq!(parsed.accepted, 4_001);
    }
    let shortest = r#"{"event":"a","distinct_id":1},"#.repeat(5_000);
    assert_eq!(accepted(batch(&shortest), &context()).accepted, 5_001);
}

#[test]
fn a_key_that_is_not_cached_is_asked_for() {
    let body = r#"{"token":" phc_later ","batch":[{"event":"e","distinct_id":"d"}]}"#;
    let error = crate::support::parse(body, &context()).unwrap_err();
    assert_eq!(error, ParseError::NeedsKey("phc_later".to_owned()));
}

#[test]
fn a_request_has_a_limit_of_events() {
    let limits = Limits {
        events_max: 3,
        ..Limits::default()
    };
    let context = ParseContext {
        limits,
        ..context()
    };
    for (count, expected) in [
        (3, None),
        (4, Some("413 too_many_events")),
        (9, Some("413 too_many_events")),
    ] {
        let list = vec![EVENT; count].join(",");
        let body = format!(r#"{{"token":"{KEY}","batch":[{list}]}}"#);
        match expected {
            None => assert_eq!(accepted(body, &context).accepted, 3),
            Some(expected) => assert_eq!(refusal(body, &context), expected),
        }
    }
}
