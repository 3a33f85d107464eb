//! Helpers that send bodies and read rows.

use millrace_parse::{
    KeyLookup, Limits, ParseContext, ParseError, Parsed, Parser, Project, Protocol,
};
use millrace_rows::testing::{self, Event, PersonUpdate, Rejected};
use millrace_rows::{Batch, Micros, ProjectId, Table};
use uuid::Uuid;

/// Time of receipt: 2026-11-20T15:38:18.100Z.
pub const NOW: Micros = Micros(1_795_189_098_100_000);
pub const KEY: &str = "phc_test";
pub const PROJECT: ProjectId = ProjectId(42);
pub const REQUEST: Uuid = Uuid::from_u128(0x0191_f99b_0000_7000_8000_0000_0000_0001);

pub fn context() -> ParseContext<'static> {
    ParseContext {
        received_at: NOW,
        created_at: NOW,
        request_id: REQUEST,
        engage: false,
        sent_at_query: None,
        historical_query: false,
        strict: false,
        dry_run: false,
        client_ip: None,
        protocol: Protocol::V0,
        limits: Limits::default(),
    }
}

/// Finds the keys that exist: [`KEY`], and `phc_private`, whose project keeps no addresses.
pub fn find(key: &str) -> KeyLookup {
    match key {
        KEY | "phc_private" => KeyLookup::Found(Project {
            id: PROJECT,
            anonymize_ips: key == "phc_private",
            ingested_event: true,
        }),
        "phc_later" => KeyLookup::Missing,
        _ => KeyLookup::Unknown,
    }
}

/// Parses twice with one parser: the second time must see what the first saw.
pub fn parse(body: impl AsRef<[u8]>, context: &ParseContext<'_>) -> Result<Parsed, ParseError> {
    let mut parser = Parser::default();
    let first = parser.parse(body.as_ref(), context, &mut find);
    let second = parser.parse(body.as_ref(), context, &mut find);
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
    second
}

/// Parses a body that must be readable.
pub fn accepted(body: impl AsRef<[u8]>, context: &ParseContext<'_>) -> Parsed {
    let text = String::from_utf8_lossy(body.as_ref()).into_owned();
    parse(body, context).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

/// Refusal of a request, as `status code`.
pub fn refusal(body: impl AsRef<[u8]>, context: &ParseContext<'_>) -> String {
    let text = String::from_utf8_lossy(body.as_ref()).into_owned();
    match parse(body, context) {
        Err(ParseError::Refused(error)) => format!("{} {}", error.status.as_u16(), error.code),
        other => panic!("{text}: {other:?}"),
    }
}

/// Builds a batch of one event with these fields beside name and id.
pub fn batch_of(fields: &str) -> String {
    format!(r#"{{"api_key":"{KEY}","batch":[{{"event":"e","distinct_id":"d"{fields}}}]}}"#)
}

/// Row of a request that has only one.
pub fn row(body: impl AsRef<[u8]>, context: &ParseContext<'_>) -> Event {
    let text = String::from_utf8_lossy(body.as_ref()).into_owned();
    let parsed = accepted(body, context);
    let mut rows = events(&parsed.batch);
    assert_eq!(
        (rows.len(), parsed.accepted),
        (1, 1),
        "{text}: {:?}",
        parsed.report
    );
    rows.remove(0)
}

/// Rejection of a request that has only one, as `code attr`.
pub fn rejection(body: impl AsRef<[u8]>, context: &ParseContext<'_>) -> String {
    let text = String::from_utf8_lossy(body.as_ref()).into_owned();
    let parsed = accepted(body, context);
    assert_eq!(parsed.report.rejected_count, 1, "{text}");
    let rejection = &parsed.report.rejected[0];
    format!("{} {}", rejection.code, rejection.attr)
}

pub fn events(batch: &Batch) -> Vec<Event> {
    rows(batch, Table::Events, testing::events)
}

pub fn rejected(batch: &Batch) -> Vec<Rejected> {
    rows(batch, Table::RejectedEvents, testing::rejected)
}

pub fn person_updates(batch: &Batch) -> Vec<PersonUpdate> {
    rows(batch, Table::PersonUpdates, testing::person_updates)
}

fn rows<T>(batch: &Batch, table: Table, read: impl Fn(&[u8]) -> Vec<T>) -> Vec<T> {
    let mut rows = Vec::new();
    for group in batch.groups.iter().filter(|group| group.table == table) {
        let of_group = read(&group.bytes);
        assert_eq!(of_group.len() as u64, u64::from(group.rows));
        assert!(!group.keys.is_empty());
        rows.extend(of_group);
    }
    rows
}
