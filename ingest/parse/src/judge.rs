//! Whether one event may be stored, and as what.
//!
//! The order of the checks is the order of the contract's table of fields: the first rule that
//! is broken names the rejection.

use crate::ids;
use crate::span::{EventSpans, Kind, Span};
use crate::text;
use crate::timestamp;
use millrace_rows::{Micros, TeamId};
use uuid::Uuid;

/// Characters of an event's name and of a distinct id, at most.
const NAME_CHARS_MAX: usize = 200;
/// How far ahead of our clock an event may be.
const AHEAD_MICROS_MAX: i64 = 23 * 3_600 * 1_000_000;

/// What holds for all events of a request.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'b> {
    pub body: &'b [u8],
    pub received_at: Micros,
    pub request_id: Uuid,
    pub team_id: TeamId,
    pub historical: bool,
    /// Microseconds by which timestamps are moved; see [`crate::skew`].
    pub shift: i64,
    pub event_bytes_max: usize,
    /// Whether an event without a name is an `$identify`.
    pub nameless_is_identify: bool,
    /// Whether events may have a `historical_migration` of their own: the single one may, as its
    /// object is the request.
    pub is_single: bool,
    /// Whether `options` of the v1 protocol are heeded.
    pub is_v1: bool,
}

/// Why an event is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub code: &'static str,
    pub detail: &'static str,
    /// Which field, as a path from the event; empty for the event itself.
    pub field: &'static str,
}

const fn fault(code: &'static str, field: &'static str, detail: &'static str) -> Fault {
    Fault {
        code,
        detail,
        field,
    }
}

/// An event that may be stored.
#[derive(Clone, Copy, Debug)]
pub struct Accepted<'s> {
    pub uuid: Uuid,
    pub has_client_uuid: bool,
    pub event: &'s str,
    pub distinct_id: &'s str,
    pub timestamp: Micros,
    pub remarks: Remarks,
}

/// What is odd about an event that is stored all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    pub illegal_distinct_id: bool,
    pub missing_timestamp: bool,
    pub future_timestamp: bool,
}

impl Remarks {
    /// Whether there is anything to say.
    #[inline]
    pub const fn any(self) -> bool {
        self.illegal_distinct_id || self.missing_timestamp || self.future_timestamp
    }
}

/// Room for strings that have to be decoded.
#[derive(Debug, Default)]
pub struct Scratch {
    event: String,
    distinct_id: String,
    other: String,
    identity: Vec<u8>,
}

impl<'b> Rules<'b> {
    /// Judges the event with this place in the request.
    #[inline]
    pub fn judge<'s>(
        &self,
        spans: &EventSpans,
        index: u32,
        scratch: &'s mut Scratch,
    ) -> Result<Accepted<'s>, Fault>
    where
        'b: 's,
    {
        self.check_whole(spans)?;
        let event = self.event(spans, &mut scratch.event)?;
        let distinct_id = self.distinct_id(spans, &mut scratch.distinct_id)?;
        let mut remarks = Remarks {
            illegal_distinct_id: is_illegal(distinct_id),
            ..Remarks::default()
        };
        let (timestamp, said) = self.timestamp(spans, &mut scratch.other, &mut remarks)?;
        let client_uuid = self.client_uuid(spans.uuid, &mut scratch.other)?;
        self.check_objects(spans)?;
        let uuid = match client_uuid {
            Some(uuid) => uuid,
            None if self.historical && said => {
                let identity = ids::Identity {
                    team_id: self.team_id,
                    event,
                    distinct_id,
                    timestamp: spans.timestamp.of(self.body),
                    properties: spans.properties.whole.of(self.body),
                };
                ids::v5(&identity, &mut scratch.identity)
            }
            None => ids::v7(self.received_at, self.request_id, index),
        };
        Ok(Accepted {
            uuid,
            has_client_uuid: client_uuid.is_some(),
            event,
            distinct_id,
            timestamp,
            remarks,
        })
    }

    fn check_whole(&self, spans: &EventSpans) -> Result<(), Fault> {
        if spans.whole.len() > self.event_bytes_max {
            return Err(fault(
                "event_too_large",
                "",
                "The event's JSON is larger than one event may be. Send less with it.",
            ));
        }
        if spans.whole.kind != Kind::Object {
            return Err(fault(
                "invalid_event",
                "",
                "An event must be a JSON object.",
            ));
        }
        let own = spans.historical_migration.kind;
        let agrees = match own {
            Kind::Absent | Kind::Null => true,
            Kind::True => self.historical,
            Kind::False => !self.historical,
            _ => false,
        };
        if agrees || self.is_single {
            return Ok(());
        }
        Err(fault(
            "invalid_historical_migration",
            "historical_migration",
            "`historical_migration` belongs beside `batch`, not in an event of it; it is true or false for the whole request.",
        ))
    }

    #[inline]
    fn event<'s>(&self, spans: &EventSpans, scratch: &'s mut String) -> Result<&'s str, Fault>
    where
        'b: 's,
    {
        let problem = match self.name(spans.event, scratch) {
            Ok(name) => return Ok(name),
            Err(problem) => problem,
        };
        Err(match problem {
            Problem::Missing if self.nameless_is_identify && spans.event.is_none() => {
                return Ok("$identify");
            }
            Problem::Missing => fault(
                "missing_event",
                "event",
                "The event has no name. Send it as the string `event`.",
            ),
            Problem::Invalid => fault(
                "invalid_event",
                "event",
                "The event's name must be a string without NUL and without lone surrogates.",
            ),
            Problem::TooLong => fault(
                "event_name_too_long",
                "event",
                "The event's name has more than 200 characters.",
            ),
        })
    }

    #[inline]
    fn distinct_id<'s>(&self, spans: &EventSpans, scratch: &'s mut String) -> Result<&'s str, Fault>
    where
        'b: 's,
    {
        let places = [
            (spans.distinct_id, "distinct_id"),
            (spans.dollar_distinct_id, "$distinct_id"),
            (spans.properties.distinct_id, "properties.distinct_id"),
            (
                spans.properties.dollar_distinct_id,
                "properties.$distinct_id",
            ),
        ];
        let found = places.into_iter().find(|(span, _)| !span.is_none());
        let (span, field) = found.unwrap_or((Span::default(), "distinct_id"));
        let problem = if span.kind == Kind::Number {
            let digits = std::str::from_utf8(span.of(self.body)).unwrap_or_default();
            if digits.len() <= NAME_CHARS_MAX {
                return Ok(digits);
            }
            Problem::TooLong
        } else {
            match self.name(span, scratch) {
                Ok(id) => return Ok(id),
                Err(problem) => problem,
            }
        };
        Err(match problem {
            Problem::Missing => fault(
                "missing_distinct_id",
                field,
                "The event does not say whose it is. Send `distinct_id` beside `event` or in its properties.",
            ),
            Problem::Invalid => fault(
                "invalid_distinct_id",
                field,
                "The distinct id must be a string (without NUL and without lone surrogates) or a number.",
            ),
            Problem::TooLong => fault(
                "distinct_id_too_long",
                field,
                "The distinct id has more than 200 characters.",
            ),
        })
    }

    /// A trimmed string of 1 to 200 characters without NUL.
    #[inline]
    fn name<'s>(&self, span: Span, scratch: &'s mut String) -> Result<&'s str, Problem>
    where
        'b: 's,
    {
        if span.is_none() {
            return Err(Problem::Missing);
        }
        if !span.is_string() {
            return Err(Problem::Invalid);
        }
        let text = text::decode(self.body, span, scratch).map_err(|_| Problem::Invalid)?;
        let name = text.trim();
        if name.is_empty() {
            return Err(Problem::Missing);
        }
        // Without an escape there can be no NUL.
        if span.kind == Kind::Escaped && name.contains('\0') {
            return Err(Problem::Invalid);
        }
        if name.len() > NAME_CHARS_MAX && name.chars().count() > NAME_CHARS_MAX {
            return Err(Problem::TooLong);
        }
        Ok(name)
    }

    /// When it happened, and whether the client said so.
    #[inline]
    fn timestamp(
        &self,
        spans: &EventSpans,
        scratch: &mut String,
        remarks: &mut Remarks,
    ) -> Result<(Micros, bool), Fault> {
        let invalid = fault(
            "invalid_timestamp",
            "timestamp",
            "The timestamp must be ISO 8601, from 1970 on, such as `2026-01-31T12:00:00Z`.",
        );
        let span = spans.timestamp;
        let text = match span.kind {
            Kind::Absent | Kind::Null => b"",
            Kind::String | Kind::Escaped => {
                text::decode_ascii(self.body, span, scratch).map_err(|_| invalid)?
            }
            _ => return Err(invalid),
        };
        if text.is_empty() {
            remarks.missing_timestamp = self.historical;
            return Ok((self.sent_before(spans.offset), false));
        }
        let at = timestamp::parse(text).ok_or(invalid)?;
        let at = self.corrected(at, spans);
        if at.0 <= self.received_at.0.saturating_add(AHEAD_MICROS_MAX) {
            return Ok((at, true));
        }
        if self.historical {
            return Err(fault(
                "timestamp_in_future",
                "timestamp",
                "The timestamp is more than 23 hours ahead. Historical events have happened already.",
            ));
        }
        remarks.future_timestamp = true;
        Ok((self.received_at, true))
    }

    fn corrected(&self, at: Micros, spans: &EventSpans) -> Micros {
        if self.historical || self.shift == 0 || self.ignores_sent_at(spans) {
            return at;
        }
        Micros(at.plus_micros(self.shift).0.max(0))
    }

    fn ignores_sent_at(&self, spans: &EventSpans) -> bool {
        let option = spans.options.disable_skew_correction;
        let by_option = match option.kind {
            Kind::True => true,
            Kind::String => matches!(option.of(self.body), b"true" | b"1"),
            Kind::Number => option.of(self.body) == b"1",
            _ => false,
        };
        spans.properties.ignore_sent_at || (self.is_v1 && by_option)
    }

    /// The received time less the event's `offset` in milliseconds, if that is a sensible one.
    fn sent_before(&self, offset: Span) -> Micros {
        let millis = match offset.kind {
            Kind::Number => std::str::from_utf8(offset.of(self.body))
                .ok()
                .and_then(|digits| digits.parse::<i64>().ok()),
            _ => None,
        };
        let at = millis
            .filter(|millis| *millis >= 0)
            .and_then(|millis| self.received_at.0.checked_sub(millis.checked_mul(1_000)?))
            .filter(|at| *at >= 0);
        at.map_or(self.received_at, Micros)
    }

    #[inline]
    fn client_uuid(&self, span: Span, scratch: &mut String) -> Result<Option<Uuid>, Fault> {
        let invalid = fault(
            "invalid_uuid",
            "uuid",
            "The uuid must be 32 hexadecimal digits, with or without hyphens; leave it out to get one.",
        );
        if span.is_none() {
            return Ok(None);
        }
        if !span.is_string() {
            return Err(invalid);
        }
        let text = text::decode_ascii(self.body, span, scratch).map_err(|_| invalid)?;
        if text.is_empty() {
            return Ok(None);
        }
        ids::parse(text).map(Some).ok_or(invalid)
    }

    #[inline]
    fn check_objects(&self, spans: &EventSpans) -> Result<(), Fault> {
        let properties = spans.properties.whole;
        if !properties.is_none() && properties.kind != Kind::Object {
            return Err(fault(
                "invalid_properties",
                "properties",
                "`properties` must be an object.",
            ));
        }
        let objects = [
            (spans.set, "$set"),
            (spans.set_once, "$set_once"),
            (spans.groups, "$groups"),
        ];
        for (span, field) in objects {
            if !span.is_none() && span.kind != Kind::Object {
                return Err(fault(
                    "invalid_properties",
                    field,
                    "This must be an object.",
                ));
            }
        }
        let unset = spans.unset;
        let is_valid = match unset.kind {
            Kind::Absent | Kind::Null | Kind::Object => true,
            Kind::Array => is_array_of_strings(unset.of(self.body)),
            _ => false,
        };
        if is_valid {
            return Ok(());
        }
        Err(fault(
            "invalid_properties",
            "$unset",
            "`$unset` must be an array of strings or an object.",
        ))
    }
}

/// What may be wrong with a name or an id.
enum Problem {
    Missing,
    Invalid,
    TooLong,
}

/// Whether every element of an array, known to be JSON, is a string.
#[cold]
fn is_array_of_strings(array: &[u8]) -> bool {
    let mut in_string = false;
    let mut escaped = false;
    let inner = array
        .get(1..array.len().saturating_sub(1))
        .unwrap_or_default();
    inner.iter().all(|byte| {
        if in_string {
            let closes = *byte == b'"' && !escaped;
            escaped = *byte == b'\\' && !escaped;
            in_string = !closes;
            return true;
        }
        in_string = *byte == b'"';
        in_string || *byte == b',' || crate::index::is_white(*byte)
    })
}

/// Whether an id is one that many clients send by mistake, so that it is nobody's: the event is
/// stored, but says nothing of a person.
#[inline]
fn is_illegal(distinct_id: &str) -> bool {
    const ILLEGAL: [&str; 20] = [
        "0",
        "00000000-0000-0000-0000-000000000000",
        "[object object]",
        "anonymous",
        "anonymous-user",
        "backend",
        "distinct_id",
        "distinctid",
        "email",
        "false",
        "guest",
        "id",
        "nan",
        "none",
        "not_authenticated",
        "null",
        "system",
        "true",
        "undefined",
        "user",
    ];
    // Ids of people are mostly longer, but not as long as a uuid.
    let may_be = matches!(distinct_id.len(), 1..=17 | 36);
    let first = distinct_id.bytes().next().unwrap_or_default() | 0x20;
    may_be
        && ILLEGAL.iter().any(|illegal| {
            illegal.len() == distinct_id.len()
                && illegal
                    .bytes()
                    .next()
                    .is_some_and(|byte| byte | 0x20 == first)
                && illegal.eq_ignore_ascii_case(distinct_id)
        })
}
