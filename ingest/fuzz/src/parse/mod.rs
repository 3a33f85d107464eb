//! Target `parse`: parses bodies and compares with serde_json and a reference parser.

mod json;
mod reference_parser;
mod rows;

use millrace_parse::{
    KeyLookup, Limits, ParseContext, ParseError, Parsed, Parser, Project, Protocol,
};
use reference_parser::{NOW, PROJECT};
use std::cell::RefCell;
use std::sync::LazyLock;
use uuid::Uuid;

/// Error codes for a text that is not JSON.
const UNREADABLE: [&str; 3] = ["invalid_json", "invalid_utf8", "json_too_deep"];

/// Most bytes of one header in the longest request head.
const HEADER_BYTES: usize = 60 << 10;
/// Most bytes of rows for each byte of a body: an event and its update of a person or a group, or
/// a refused event beside them, each with some of its texts escaped.
const ROW_BYTES_PER_BYTE: usize = 6;
/// Most bytes of rows for each event: ids, times, and properties added from the request's head.
const ROW_BYTES_PER_EVENT: usize = 1 << 10;

/// Headers that name the SDK: a real one, and two of the longest, one of which doubles when it is
/// written as JSON.
static SDK_INFO: LazyLock<[String; 3]> = LazyLock::new(|| {
    let long = |letter: &str| format!("{0}/{0}", letter.repeat(HEADER_BYTES / 2));
    ["posthog-python/7.91.1".to_owned(), long("a"), long("\"")]
});

thread_local! {
    static PARSERS: RefCell<[Parser; 2]> =
        RefCell::new([Parser::default(), millrace_parse::testing::portable_parser()]);
}

/// Parses a body in the context that the input's first byte chooses.
///
/// # Panics
///
/// If the parser's two indexes lead to two results, if it accepts invalid JSON or refuses valid
/// JSON as invalid, or if its rows differ from the reference parser's.
pub fn parse(data: &[u8]) {
    let Some((&choice, body)) = data.split_first() else {
        return;
    };
    let context = context(choice);
    PARSERS.with_borrow_mut(|[parser, portable]| {
        let result = parser.parse(body, &context, &mut find);
        let other = portable.parse(body, &context, &mut find);
        assert_same(&result, &other);
        check(body, &context, &result);
        check_bytes(body, &result);
        for (parser, result) in [(parser, result), (portable, other)] {
            if let Ok(parsed) = result {
                let groups = parsed.batch.groups.into_iter();
                parser.recycle(groups.map(|group| group.bytes));
            }
        }
    });
}

pub(crate) fn context(choice: u8) -> ParseContext<'static> {
    let has = |bit: u32| choice >> bit & 1 == 1;
    let small = Limits {
        event_bytes_max: 300,
        events_max: 3,
        depth_max: 6,
    };
    ParseContext {
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
                sdk_info: sdk_info(choice >> 6),
            },
        },
        limits: if has(4) { small } else { Limits::default() },
    }
}

fn sdk_info(choice: u8) -> Option<&'static str> {
    let nth = usize::from(choice).checked_sub(1)?;
    SDK_INFO.get(nth).map(String::as_str)
}

fn find(_: &str) -> KeyLookup {
    KeyLookup::Found(Project {
        id: PROJECT,
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

/// Asserts that the bytes of rows are within a multiple of the bytes sent.
fn check_bytes(body: &[u8], result: &Result<Parsed, ParseError>) {
    let Ok(parsed) = result else { return };
    let events = (parsed.accepted + parsed.report.rejected_count) as usize;
    let allowed = body.len() * ROW_BYTES_PER_BYTE + events * ROW_BYTES_PER_EVENT;
    let bytes = parsed.batch.bytes();
    assert!(
        bytes <= allowed,
        "{bytes} bytes of rows for {} bytes and {events} events",
        body.len()
    );
}

fn check(body: &[u8], context: &ParseContext<'_>, result: &Result<Parsed, ParseError>) {
    let text = json::readable(body, context.limits.depth_max);
    match (result, text) {
        (Ok(parsed), Some(text)) => reference_parser::check(&text, context, parsed),
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
                    reference_parser::check_refusal(&text, context, error.code);
                }
                None => assert!(is_unreadable || error.code == "invalid_body"),
            }
        }
    }
}
