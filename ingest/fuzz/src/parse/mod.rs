//! Bodies through the parser, against serde_json and a model of the contract.

mod json;
mod model;
mod rows;

use millrace_parse::{Facts, KeyLookup, Limits, ParseError, Parsed, Parser, Project, Protocol};
use millrace_rows::{Micros, TeamId};
use std::cell::RefCell;
use uuid::Uuid;

/// 2026-11-20T15:38:18.100Z
const NOW: Micros = Micros(1_795_189_098_100_000);
const TEAM: TeamId = TeamId(42);
/// What a text that is not JSON is refused for.
const UNREADABLE: [&str; 3] = ["invalid_json", "invalid_utf8", "json_too_deep"];

thread_local! {
    static PARSERS: RefCell<[Parser; 2]> =
        RefCell::new([Parser::default(), millrace_parse::testing::portable_parser()]);
}

/// The first byte chooses what is known of the request, the rest is its body.
///
/// # Panics
///
/// If the parser's two indexes lead to two results, if it takes what is not JSON or refuses as
/// not JSON what is, or if it makes other rows of it than the model.
pub fn parse(data: &[u8]) {
    let Some((&choice, body)) = data.split_first() else {
        return;
    };
    let facts = facts(choice);
    PARSERS.with_borrow_mut(|[parser, portable]| {
        let result = parser.parse(body, &facts, &mut find);
        let other = portable.parse(body, &facts, &mut find);
        assert_same(&result, &other);
        check(body, &facts, &result);
        for (parser, result) in [(parser, result), (portable, other)] {
            if let Ok(parsed) = result {
                let groups = parsed.batch.groups.into_iter();
                parser.recycle(groups.map(|group| group.bytes));
            }
        }
    });
}

fn facts(choice: u8) -> Facts<'static> {
    let has = |bit: u32| choice >> bit & 1 == 1;
    let small = Limits {
        event_bytes_max: 300,
        events_max: 3,
        depth_max: 6,
    };
    Facts {
        received_at: NOW,
        created_at: NOW,
        request_id: Uuid::from_u128(0x0191_f99b_0000_7000_8000_0000_0000_0001),
        engage: has(1),
        sent_at_query: has(5).then_some("1795180000000"),
        historical_query: has(0),
        strict: false,
        dry_run: false,
        client_ip: has(3).then(|| [192, 0, 2, 1].into()),
        protocol: match has(2) {
            false => Protocol::V0,
            true => Protocol::V1 {
                key: "k",
                sent_at: None,
                sdk_info: has(6).then_some("posthog-python/7.91.1"),
            },
        },
        limits: if has(4) { small } else { Limits::default() },
    }
}

fn find(_: &str) -> KeyLookup {
    KeyLookup::Found(Project {
        team_id: TEAM,
        anonymize_ips: false,
        ingested_event: true,
    })
}

fn assert_same(one: &Result<Parsed, ParseError>, other: &Result<Parsed, ParseError>) {
    match (one, other) {
        (Ok(one), Ok(other)) => {
            assert_eq!(one.report, other.report);
            assert_eq!(one.accepted, other.accepted);
            assert_eq!(one.fingerprint, other.fingerprint);
            assert_eq!(one.results, other.results);
            assert_eq!(one.batch.groups.len(), other.batch.groups.len());
            for (one, other) in one.batch.groups.iter().zip(&other.batch.groups) {
                assert!(*one.bytes == *other.bytes && one.keys == other.keys);
            }
        }
        (Err(one), Err(other)) => assert_eq!(one, other),
        (one, other) => panic!("AVX-512 {one:?}, portable {other:?}"),
    }
}

fn check(body: &[u8], facts: &Facts<'_>, result: &Result<Parsed, ParseError>) {
    let text = json::readable(body, facts.limits.depth_max);
    match (result, text) {
        (Ok(parsed), Some(text)) => model::check(&text, facts, parsed),
        (Ok(_), None) => panic!("taken, and no JSON to serde_json"),
        (Err(ParseError::NeedsKey(key)), _) => panic!("{key:?} was known"),
        (Err(ParseError::Refused(error)), text) => {
            assert!(error.status.is_client_error());
            let is_unreadable = UNREADABLE.contains(&error.code);
            match text {
                Some(text) => {
                    assert!(
                        !is_unreadable,
                        "{} refused, and JSON to serde_json",
                        error.code
                    );
                    model::check_refusal(&text, facts, error.code);
                }
                None => assert!(is_unreadable || error.code == "invalid_body"),
            }
        }
    }
}
