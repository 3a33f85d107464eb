//! What an event is called, and whose it is.

use super::{Fault, Rules, fault};
use crate::span::{EventSpans, Kind, Span};
use crate::text;

/// Characters of an event's name and of a distinct id, at most.
pub const NAME_CHARS_MAX: usize = 200;

impl<'b> Rules<'b> {
    #[inline]
    pub(super) fn event<'s>(
        &self,
        spans: &EventSpans,
        scratch: &'s mut String,
    ) -> Result<&'s str, Fault>
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
    pub(super) fn distinct_id<'s>(
        &self,
        spans: &EventSpans,
        scratch: &'s mut String,
    ) -> Result<&'s str, Fault>
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
        let (span, field) = found.unwrap_or((Span::default(), "properties.distinct_id"));
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
}

/// What may be wrong with a name or an id.
enum Problem {
    Missing,
    Invalid,
    TooLong,
}

/// Whether an id is one that many clients send by mistake, so that it is nobody's: the event is
/// stored, but says nothing of a person.
#[inline]
pub fn is_illegal(distinct_id: &str) -> bool {
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
