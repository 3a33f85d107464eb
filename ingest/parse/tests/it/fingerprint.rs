//! Fingerprint of a request: it covers all that is stored of its events as sent, and nothing that
//! an SDK renews when it tries again.

use crate::support::{KEY, NOW, context, events, find, person_updates, rejected};
use millrace_parse::{KeyLookup, ParseContext, Parsed, Parser, Project, Protocol};
use millrace_rows::{Micros, ProjectId};
use proptest::prelude::*;
use uuid::Uuid;

const U1: &str = "01a1f99b-b499-70c4-9505-90a47f19f001";
const U2: &str = "01a1f99b-b499-70c4-9505-90a47f19f002";
const OTHER_KEY: &str = "phc_other_team";

/// Request with its body and what is sent around it.
#[derive(Clone, Debug)]
struct SentRequest {
    events: Vec<String>,
    shape: &'static str,
    key: &'static str,
    sent_at: &'static str,
    historical: bool,
    engage: bool,
    /// Header of the SDK, where the protocol is that of single events.
    v1: Option<&'static str>,
}

impl SentRequest {
    fn of(events: &[&str]) -> Self {
        Self {
            events: events.iter().map(|event| (*event).to_owned()).collect(),
            shape: "batch",
            key: KEY,
            sent_at: "2026-11-20T15:38:18Z",
            historical: false,
            engage: false,
            v1: None,
        }
    }

    fn body(&self) -> String {
        let Self { key, sent_at, .. } = self;
        let list = self.events.join(", ");
        match self.shape {
            "array" => format!("[{list}]"),
            "single" => {
                let members = self.events[0].strip_prefix('{').unwrap();
                format!(r#"{{"api_key":"{key}", "sent_at":"{sent_at}",{members}"#)
            }
            _ => format!(r#"{{"api_key":"{key}","batch":[{list}],"sent_at":"{sent_at}"}}"#),
        }
    }

    /// Header of the SDK, if this may come by the protocol of single events: batches of events with
    /// an id each do.
    fn sdk_info(&self) -> Option<&'static str> {
        let with = |id| self.events.iter().filter(move |event| event.contains(id));
        let have_ids = with(U1).count() <= 1
            && with(U2).count() <= 1
            && with(U1).chain(with(U2)).count() == self.events.len();
        let may = self.shape == "batch" && !self.engage && have_ids;
        self.v1.filter(|_| may)
    }

    fn parsed(&self, context: &ParseContext<'_>) -> Parsed {
        let body = self.body();
        let mut find = |key: &str| match key {
            OTHER_KEY => KeyLookup::Found(Project {
                id: ProjectId(7),
                anonymize_ips: false,
                ingested_event: true,
            }),
            key => find(key),
        };
        let context = ParseContext {
            historical_query: self.historical,
            engage: self.engage,
            protocol: self
                .sdk_info()
                .map_or(Protocol::V0, |sdk_info| Protocol::V1 {
                    key: self.key,
                    sent_at: None,
                    sdk_info: Some(sdk_info),
                }),
            ..*context
        };
        let parsed = Parser::default().parse(body.as_bytes(), &context, &mut find);
        parsed.unwrap_or_else(|error| panic!("{body}: {error:?}"))
    }

    fn print(&self) -> Option<u128> {
        self.parsed(&context()).fingerprint
    }
}

fn event(fields: &str) -> String {
    format!(r#"{{"event":"e","distinct_id":"d","api_key":"{KEY}","uuid":"{U1}"{fields}}}"#)
}

/// Text of all that is stored of a request.
fn stored(parsed: &Parsed) -> String {
    let (project_id, batch) = (parsed.project_id, &parsed.batch);
    let (events, rejected) = (events(batch), rejected(batch));
    let updates = person_updates(batch);
    format!(
        "{project_id} {:?} {events:?} {rejected:?} {updates:?}",
        batch.lane
    )
}

#[test]
fn each_stored_field_changes_the_fingerprint() {
    let base = event(r#","properties":{"a":1}"#);
    let one = SentRequest::of(&[&base]);
    let known = one.print();
    assert!(known.is_some());
    let fields = [
        (r#""event":"e""#, r#""event":"f""#),
        (r#""distinct_id":"d""#, r#""distinct_id":"c""#),
        (U1, U2),
        (r#""a":1"#, r#""a":2"#),
        (r#""a":1"#, r#""a": 1"#),
        (r#""a":1"#, r#""a":1,"b":1"#),
        (r#"{"a":1}"#, r#"{"a":1},"$set":{"plan":"x"}"#),
        (r#"{"a":1}"#, r#"{"a":1},"$groups":{"company":"x"}"#),
        (r#"{"a":1}"#, r#"{"a":1},"offset":5"#),
        (
            r#"{"a":1}"#,
            r#"{"a":1},"timestamp":"2026-11-20T15:38:18Z""#,
        ),
    ];
    for (from, to) in fields {
        let other = SentRequest::of(&[&base.replace(from, to)]).print();
        assert!(other.is_some() && other != known, "{from} {to}");
    }
    let second = base.replace(U1, U2);
    let mut prints = vec![
        known,
        SentRequest::of(&[&base, &second]).print(),
        SentRequest::of(&[&second, &base]).print(),
        SentRequest {
            key: OTHER_KEY,
            ..one.clone()
        }
        .print(),
        SentRequest {
            historical: true,
            ..one.clone()
        }
        .print(),
    ];
    for sdk in ["posthog-python/7.91.1", "posthog-python/7.91.2", ""] {
        let v1 = Some(sdk);
        prints.push(SentRequest { v1, ..one.clone() }.print());
    }
    assert!(prints.iter().all(Option::is_some));
    prints.sort_unstable();
    prints.dedup();
    assert_eq!(prints.len(), 8);
}

#[test]
fn an_event_without_a_name_has_another_fingerprint_on_engage() {
    let nameless = SentRequest {
        shape: "single",
        ..SentRequest::of(&[&event("").replace(r#""event":"e","#, "")])
    };
    let engage = SentRequest {
        engage: true,
        ..nameless.clone()
    };
    assert!(nameless.print().is_some());
    assert_ne!(nameless.print(), engage.print());
}

#[test]
fn a_resent_request_is_known_whenever_and_from_wherever_it_comes() {
    let again = ParseContext {
        received_at: Micros(NOW.0 + 300_000_000),
        created_at: Micros(NOW.0 + 300_000_000),
        request_id: Uuid::nil(),
        sent_at_query: Some("1795189398278"),
        client_ip: Some([192, 0, 2, 1].into()),
        ..context()
    };
    let at = event(r#","timestamp":"2026-11-20T15:38:10Z""#);
    for shape in ["batch", "array", "single"] {
        for event in [&event(""), &at] {
            let first = SentRequest {
                shape,
                ..SentRequest::of(&[event])
            };
            let second = SentRequest {
                sent_at: "2026-11-20T15:43:18.5Z",
                ..first.clone()
            };
            let known = first.print();
            assert!(known.is_some());
            assert_eq!(second.parsed(&again).fingerprint, known, "{shape} {event}");
        }
    }
    // Both spellings, in either order.
    let single = |first: &str, second: &str| {
        let members = format!(r#""{first}":"2026-11-20T15:38:18Z","$set":{{}},"{second}":null"#);
        SentRequest {
            shape: "single",
            ..SentRequest::of(&[&event(&format!(",{members}"))])
        }
    };
    for (first, second) in [("sentAt", "x"), ("sentAt", "sent_at"), ("x", "sentAt")] {
        let one = single(first, second);
        let mut other = one.clone();
        other.events[0] = other.events[0].replace("null", "17");
        let is_time = second != "x";
        assert_eq!(one.print() == other.print(), is_time, "{first} {second}");
    }
}

#[test]
fn requests_with_an_event_without_uuid_have_no_fingerprint() {
    let none = event("").replace(U1, "");
    let refused = r#"{"event":"e","distinct_id":null}"#;
    for other in [&none, refused, "17", r#""x""#] {
        let sent = SentRequest::of(&[&event(""), other]);
        assert_eq!(sent.print(), None, "{other}");
    }
}

#[test]
fn a_refused_event_changes_the_fingerprint_when_it_is_mended_or_due() {
    let refused = event("").replace(r#""d""#, "null");
    let known = SentRequest::of(&[&refused, &event("")]).print();
    assert!(known.is_some());
    let mended = SentRequest::of(&[&refused.replace("null", r#""d""#), &event("")]).print();
    let refused_otherwise =
        SentRequest::of(&[&refused.replace("null", r#""""#), &event("")]).print();
    assert!(mended != known && refused_otherwise != known);
    // 23 hours ahead, less a second, more a second.
    let future = SentRequest {
        historical: true,
        ..SentRequest::of(&[&event(r#","timestamp":"2026-11-21T14:38:18Z""#)])
    };
    let at = |seconds: i64| {
        future.parsed(&ParseContext {
            received_at: Micros(NOW.0 + seconds * 1_000_000),
            ..context()
        })
    };
    let (early, later, due) = (at(-2), at(-1), at(1));
    assert_eq!((early.accepted, later.accepted, due.accepted), (0, 0, 1));
    assert_eq!(early.fingerprint, later.fingerprint);
    assert_ne!(early.fingerprint, due.fingerprint);
}

fn any_event() -> impl Strategy<Value = String> {
    let one_of = |list: &[&'static str]| prop::sample::select(list.to_vec());
    (
        one_of(&["e", "f", "$identify", ""]),
        one_of(&["d", "c"]),
        one_of(&[U1, U2, "", "x"]),
        one_of(&["", r#","timestamp":"2026-11-20T15:38:10Z""#, r#","offset":7"#]),
        one_of(&[
            "",
            r#","properties":{}"#,
            r#","properties":{"a":1}"#,
            r#","properties":{"a":1,"$ip":"1.2.3.4"}"#,
            r#","$set":{"plan":"x"}"#,
            r#","session_id":"s""#,
        ]),
    )
        .prop_map(|(name, id, uuid, time, rest)| {
            format!(
                r#"{{"event":"{name}","distinct_id":"{id}","uuid":"{uuid}","api_key":"{KEY}"{time}{rest}}}"#
            )
        })
}

/// Requests of few different parts, so that many of them are alike.
fn any_request() -> impl Strategy<Value = SentRequest> {
    (
        prop::collection::vec(any_event(), 1..3),
        prop::sample::select(vec!["batch", "array", "single"]),
        prop::sample::select(vec![KEY, KEY, OTHER_KEY]),
        any::<[bool; 2]>(),
        prop::option::of(prop::sample::select(vec![
            "posthog-python/7.91.1",
            "posthog-go/1.2.0",
        ])),
    )
        .prop_map(
            |(events, shape, key, [historical, engage], v1)| SentRequest {
                events,
                shape,
                key: if shape == "batch" { key } else { KEY },
                sent_at: "2026-11-20T15:38:18Z",
                historical,
                engage,
                v1,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn requests_that_differ_in_what_is_stored_have_different_fingerprints(
        one in any_request(),
        other in any_request(),
        with in prop::sample::select(vec!["all", "events", "shape", "lane", "path", "protocol"]),
    ) {
        // Mostly alike but for one thing.
        let other = match with {
            "events" => SentRequest { events: other.events, ..one.clone() },
            "shape" => SentRequest { shape: other.shape, ..one.clone() },
            "lane" => SentRequest { historical: !one.historical, ..one.clone() },
            "path" => SentRequest { engage: !one.engage, ..one.clone() },
            "protocol" => SentRequest { v1: other.v1, ..one.clone() },
            _ => other,
        };
        let (a, b) = (one.parsed(&context()), other.parsed(&context()));
        if stored(&a) != stored(&b) {
            prop_assert!(a.fingerprint.is_none() || a.fingerprint != b.fingerprint);
        }
    }

    #[test]
    fn a_request_is_known_however_often_its_sdk_tries_again(
        one in any_request(),
        seconds in 0_i64..600,
    ) {
        let again = SentRequest { sent_at: "2026-11-20T15:47:00Z", ..one.clone() };
        let later = ParseContext {
            received_at: Micros(NOW.0 + seconds * 1_000_000),
            request_id: Uuid::nil(),
            ..context()
        };
        prop_assert_eq!(again.parsed(&later).fingerprint, one.print());
    }
}
