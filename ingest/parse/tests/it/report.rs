//! Section 5: the report on a request's events, and the rows of the refused ones.

use crate::support::{KEY, NOW, PROJECT, REQUEST, accepted, batch_of, context, events, rejected};
use millrace_parse::ParseContext;

const GOOD: &str = r#"{"event":"e","distinct_id":"d"}"#;
const BAD: &str = r#"{"event":"e", "distinct_id":null }"#;

fn batch(events: &[&str]) -> String {
    format!(r#"{{"token":"{KEY}","batch":[{}]}}"#, events.join(" , "))
}

#[test]
fn good_events_are_stored_beside_bad_ones() {
    let parsed = accepted(batch(&[GOOD, BAD, GOOD]), &context());
    assert_eq!((parsed.accepted, parsed.report.rejected_count), (2, 1));
    assert_eq!(events(&parsed.batch).len(), 2);
    let row = rejected(&parsed.batch).remove(0);
    assert_eq!(row.team_id, PROJECT.0);
    assert_eq!(row.received_at, NOW);
    assert_eq!(row.request_id, REQUEST.to_string());
    assert_eq!((row.index, row.code.as_str()), (1, "missing_distinct_id"));
    assert_eq!(row.attr, "batch[1].properties.distinct_id");
    assert_eq!(row.detail, parsed.report.rejected[0].detail);
    assert_eq!((row.raw.as_str(), row.historical_migration), (BAD, false));
}

#[test]
fn when_all_are_bad_all_are_kept_as_rejected() {
    let parsed = accepted(batch(&[BAD, BAD]), &context());
    assert_eq!((parsed.accepted, events(&parsed.batch).len()), (0, 0));
    assert_eq!(rejected(&parsed.batch).len(), 2);
}

#[test]
fn a_hundred_are_listed_and_all_are_counted() {
    let odd = r#"{"event":"e","distinct_id":"null"}"#;
    let parsed = accepted(batch(&[[BAD; 150], [odd; 150]].concat()), &context());
    let report = &parsed.report;
    assert_eq!((report.rejected.len(), report.rejected_count), (100, 150));
    assert_eq!((report.warnings.len(), report.warning_count), (100, 150));
    assert_eq!(rejected(&parsed.batch).len(), 150);
}

#[test]
fn the_flags_of_the_query_are_carried_through() {
    for (strict, dry_run) in [(false, false), (true, false), (false, true)] {
        let parsed = accepted(
            batch_of(""),
            &ParseContext {
                strict,
                dry_run,
                ..context()
            },
        );
        assert_eq!((parsed.strict, parsed.dry_run), (strict, dry_run));
    }
}

#[test]
fn ids_we_make_are_new_in_every_request_and_stay_in_order() {
    let two = batch(&[GOOD, GOOD]);
    let ids = |context: &ParseContext<'_>| {
        events(&accepted(&two, context).batch)
            .into_iter()
            .map(|e| e.uuid)
            .collect::<Vec<_>>()
    };
    let other = ParseContext {
        request_id: uuid::Uuid::from_u128(5),
        ..context()
    };
    let (first, second) = (ids(&context()), ids(&other));
    assert!(first[0] < first[1]);
    assert!(first.iter().all(|id| !second.contains(id)));
}
