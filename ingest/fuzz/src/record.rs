//! Target `record`: maps records of other tools to events, and parses those as the server does.

use millrace_parse::{KeyLookup, Limits, ParseContext, ParseError, Parser, Project, Protocol};
use millrace_rows::{Micros, ProjectId};
use millrace_sources::{Events, Format, Options};
use std::cell::RefCell;
use uuid::Uuid;

/// 2026-11-20T15:38:18.100Z
const NOW: Micros = Micros(1_795_189_098_100_000);
/// Error codes for which the record itself may be the cause, as a name that is too long or a time
/// in the future.
const CAUSED_BY_RECORD: [&str; 6] = [
    "event_name_too_long",
    "invalid_event",
    "distinct_id_too_long",
    "invalid_distinct_id",
    "timestamp_in_future",
    "event_too_large",
];

thread_local! {
    static PARSER: RefCell<Parser> = RefCell::default();
}

/// Maps a record by the format and options that the input's first byte chooses.
///
/// # Panics
///
/// If a refused record leaves events, or if the server cannot read a mapped event.
pub fn record(data: &[u8]) {
    let Some((&choice, raw)) = data.split_first() else {
        return;
    };
    let has = |bit: u32| choice >> bit & 1 == 1;
    let format = Format::ALL[usize::from(choice & 15) % Format::ALL.len()];
    let options = Options {
        time_zone: has(4).then(|| "America/New_York".to_owned()),
        skip_without_distinct_id: has(5),
        identify: has(6),
        groups: has(7),
        group_keys: vec!["company".to_owned()],
        ..Options::default()
    };
    let mut mapping = format.mapping(&options).unwrap();
    let mut events = Events::default();
    if let Err(error) = mapping.map(raw, &mut events) {
        assert!(events.list().is_empty(), "{error} leaves events");
        return;
    }
    // The mapping of our own format copies events unchanged; the server validates them.
    if format != Format::Captured && !events.list().is_empty() {
        check(&events);
    }
}

fn check(events: &Events) {
    let mut body = br#"{"token":"k","historical_migration":true,"batch":["#.to_vec();
    for (nth, event) in events.list().iter().enumerate() {
        if nth > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&events.json()[event.json.clone()]);
    }
    body.extend_from_slice(b"]}");
    let context = ParseContext {
        received_at: NOW,
        created_at: NOW,
        request_id: Uuid::nil(),
        engage: false,
        sent_at_query: None,
        historical_query: false,
        strict: false,
        dry_run: false,
        client_ip: None,
        protocol: Protocol::V0,
        limits: Limits::default(),
    };
    let result = PARSER.with_borrow_mut(|parser| parser.parse(&body, &context, &mut find));
    let shown = body.escape_ascii();
    match result {
        Ok(parsed) => {
            for rejection in &parsed.report.rejected {
                assert!(
                    CAUSED_BY_RECORD.contains(&rejection.code),
                    "{} of {shown}",
                    rejection.code
                );
            }
        }
        Err(ParseError::Refused(error)) => {
            assert!(
                CAUSED_BY_RECORD.contains(&error.code),
                "{} of {shown}",
                error.code
            );
        }
        Err(other) => panic!("{other:?} of {shown}"),
    }
}

fn find(_: &str) -> KeyLookup {
    KeyLookup::Found(Project {
        id: ProjectId(42),
        anonymize_ips: false,
        ingested_event: true,
    })
}
