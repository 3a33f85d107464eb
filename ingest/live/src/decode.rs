//! Decodes the copied rows of a request.

use crate::event::{EventOutcome, LiveEvent, Properties, short_property, shortened, string_of};
use crate::observation::{Observed, RequestFacts, RequestOutcome};
use millrace_rows::{StoredEvent, StoredRejected};
use serde_json::value::RawValue;
use std::iter::Peekable;
use std::slice;

/// Decodes the events of a request, as far as its copy has them. `number` returns the number of the
/// next event.
pub fn decoded(observed: &Observed, mut number: impl FnMut() -> u64) -> Vec<LiveEvent> {
    let Observed {
        facts,
        rows,
        outcome,
        ..
    } = observed;
    let mut events = Vec::new();
    if let RequestOutcome::Logged { lane, position } = *outcome {
        let mut indexes = EventIndexes::of(facts, rows.is_in_order);
        let mut left = rows.events.as_slice();
        while let Some(row) = StoredEvent::take(&mut left) {
            let warnings = warnings_of(facts, indexes.next());
            let outcome = EventOutcome::Logged { lane, position };
            events.push(accepted(&row, facts, number(), outcome, warnings));
        }
    }
    let mut left = rows.rejected.as_slice();
    while let Some(row) = StoredRejected::take(&mut left) {
        events.push(rejected(&row, facts, number()));
    }
    events
}

fn accepted(
    row: &StoredEvent<'_>,
    facts: &RequestFacts,
    number: u64,
    outcome: EventOutcome,
    warnings: Option<Vec<&'static str>>,
) -> LiveEvent {
    let properties = serde_json::from_slice::<Properties>(row.properties).ok();
    let lib = |name: &str| short_property(properties.as_ref()?, name);
    LiveEvent {
        number,
        uuid: Some(row.uuid),
        event: Some(shortened(&String::from_utf8_lossy(row.event))),
        distinct_id: Some(shortened(&String::from_utf8_lossy(row.distinct_id))),
        timestamp: Some(row.timestamp),
        received_at: row.created_at,
        is_historical: row.historical_migration,
        lib: lib("$lib"),
        lib_version: lib("$lib_version"),
        bytes: row.row_bytes,
        key: facts.key.clone(),
        client_ip: facts.client_ip,
        outcome,
        warnings,
        properties,
    }
}

/// Rejected event, with what can be read of its JSON.
fn rejected(row: &StoredRejected<'_>, facts: &RequestFacts, number: u64) -> LiveEvent {
    let text = |bytes: &[u8]| shortened(&String::from_utf8_lossy(bytes));
    let fields = serde_json::from_slice::<Properties>(row.raw).unwrap_or_default();
    let field = |name: &str| {
        let value: &RawValue = fields.get(name)?;
        // Ids are often numbers.
        let text = string_of(value).unwrap_or_else(|| value.get().to_owned());
        Some(shortened(&text))
    };
    let properties = fields.get("properties").map(|value| value.get());
    let properties = properties.and_then(|text| serde_json::from_str::<Properties>(text).ok());
    let lib = |name: &str| short_property(properties.as_ref()?, name);
    LiveEvent {
        number,
        uuid: None,
        event: field("event"),
        distinct_id: field("distinct_id"),
        timestamp: None,
        received_at: row.received_at,
        is_historical: row.historical_migration,
        lib: lib("$lib"),
        lib_version: lib("$lib_version"),
        bytes: row.raw_bytes,
        key: facts.key.clone(),
        client_ip: facts.client_ip,
        outcome: EventOutcome::Rejected {
            code: text(row.code),
            attr: text(row.attr),
            detail: text(row.detail),
        },
        warnings: Some(Vec::new()),
        properties,
    }
}

/// Codes of the warnings about the event of an index; `None` if they are not known.
fn warnings_of(facts: &RequestFacts, index: Option<u32>) -> Option<Vec<&'static str>> {
    if facts.warning_count == 0 {
        return Some(Vec::new());
    }
    let index = index?;
    let all_listed = facts.warnings.len() == facts.warning_count as usize;
    let is_listed = all_listed || facts.warnings.last().is_some_and(|(last, _)| index < *last);
    let of_event = facts.warnings.iter().filter(|(at, _)| *at == index);
    is_listed.then(|| of_event.map(|(_, code)| *code).collect())
}

/// Indexes of accepted events in their request: all but those of rejected ones.
struct EventIndexes<'a> {
    next: u32,
    rejected: Peekable<slice::Iter<'a, u32>>,
    /// True if rows are in the order of the request, and all rejected ones are known.
    is_known: bool,
}

impl<'a> EventIndexes<'a> {
    fn of(facts: &'a RequestFacts, is_in_order: bool) -> Self {
        let all_listed = facts.rejected_indexes.len() == facts.rejected as usize;
        Self {
            next: 0,
            rejected: facts.rejected_indexes.iter().peekable(),
            is_known: is_in_order && all_listed,
        }
    }

    fn next(&mut self) -> Option<u32> {
        while self.rejected.peek().is_some_and(|at| **at == self.next) {
            self.rejected.next();
            self.next += 1;
        }
        let index = self.next;
        self.next += 1;
        self.is_known.then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        NOW, POSITION, event_group, event_group_of, facts, logged, rejected_group,
    };
    use millrace_rows::Lane;
    use uuid::Uuid;

    fn all(observed: &Observed) -> Vec<LiveEvent> {
        let mut numbers = 10..;
        decoded(observed, || numbers.next().unwrap())
    }

    #[test]
    fn an_accepted_event_has_what_its_row_tells() {
        let events = all(&logged(vec![event_group(202_611, &["page"])], facts(1, 0)));
        let [event] = events.as_slice() else {
            panic!("{events:?}");
        };
        assert_eq!((event.number, event.uuid), (10, Some(Uuid::from_u128(1))));
        assert_eq!(event.event.as_deref(), Some("page"));
        assert_eq!(event.distinct_id.as_deref(), Some("ann"));
        assert_eq!((event.timestamp, event.received_at), (Some(NOW), NOW));
        assert_eq!(event.lib.as_deref(), Some("web"));
        assert_eq!(event.lib_version.as_deref(), Some("1.2.3"));
        assert_eq!(event.key.as_deref(), Some("phc_...last"));
        let outcome = EventOutcome::Logged {
            lane: Lane::Live,
            position: POSITION,
        };
        assert_eq!(event.outcome, outcome);
        assert_eq!(event.warnings, Some(vec![]));
        let plan = event.properties.as_ref().unwrap()["plan"].get();
        assert_eq!(plan, r#""pro""#);
    }

    #[test]
    fn a_rejected_event_has_what_can_be_read_of_its_json() {
        let raws = [
            r#"{"event":"","distinct_id":5,"properties":{"$lib":"web","a":1}}"#,
            r#"{"event":["x"],"properties":7}"#,
            "[1]",
            "{\"event\":\"cut off",
        ];
        let read = all(&logged(vec![rejected_group(&raws)], facts(0, 4)));
        let texts = |event: &LiveEvent| {
            let has_properties = event.properties.is_some();
            (
                event.event.clone(),
                event.distinct_id.clone(),
                event.lib.clone(),
                has_properties,
            )
        };
        let some = |text: &str| Some(text.to_owned());
        let expected = [
            (some(""), some("5"), some("web"), true),
            (some(r#"["x"]"#), None, None, false),
            (None, None, None, false),
            (None, None, None, false),
        ];
        assert_eq!(read.iter().map(texts).collect::<Vec<_>>(), expected);
        assert!(read.iter().all(|event| event.has_code("missing_event")));
    }

    #[test]
    fn properties_that_cannot_be_read_are_none() {
        let odd = [("a", r#"{"\ud800":1}"#), ("b", "{"), ("c", "{}")];
        let events = all(&logged(vec![event_group_of(202_611, &odd)], facts(3, 0)));
        let read: Vec<_> = events.iter().map(|it| it.properties.is_some()).collect();
        assert_eq!(read, [false, false, true]);
    }

    #[test]
    fn warnings_are_those_of_the_event_or_unknown() {
        let warned = |months: u32, rejected: u32, warnings: &[(u32, &'static str)], count: u32| {
            let mut facts = facts(3, rejected);
            facts.warnings = warnings.to_vec();
            facts.warning_count = count;
            let groups = (0..months).map(|month| event_group(202_601 + month, &["a", "b", "c"]));
            let events = all(&logged(groups.collect(), facts));
            let warnings = events.into_iter().map(|event| event.warnings);
            warnings.take(3).collect::<Vec<_>>()
        };
        let (none, future) = (Some(vec![]), Some(vec!["future_timestamp"]));
        let one = (1, "future_timestamp");
        let table = [
            (
                warned(1, 0, &[], 0),
                [none.clone(), none.clone(), none.clone()],
            ),
            (
                warned(1, 0, &[one], 1),
                [none.clone(), future.clone(), none.clone()],
            ),
            // The event of index 0 was rejected.
            (
                warned(1, 1, &[one], 1),
                [future, none.clone(), none.clone()],
            ),
            // Of several months, the order is not known.
            (warned(2, 0, &[one], 1), [None, None, None]),
            // More warnings than are listed, the first of which may be about the same event.
            (warned(1, 0, &[one], 2), [none, None, None]),
        ];
        for (warnings, expected) in table {
            assert_eq!(warnings, expected);
        }
    }

    #[test]
    fn accepted_events_of_a_refused_request_are_left_out() {
        let groups = vec![event_group(202_611, &["a"]), rejected_group(&["{}"])];
        let mut observed = logged(groups, facts(1, 1));
        observed.outcome = RequestOutcome::Refused;
        let events = all(&observed);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].code(), Some("missing_event"));
        assert_eq!(observed.events(), 1);
    }
}
