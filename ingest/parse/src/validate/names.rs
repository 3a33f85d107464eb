//! Validation of event names and distinct ids.

use super::rules::{Rules, Violation, violation};
use crate::span::{Event, Kind, Span};
use crate::text;
use crate::walk::number_len;

/// Characters of an event's name and of a distinct id, at most.
pub const NAME_CHARS_MAX: usize = 200;

impl<'b> Rules<'b> {
    #[inline]
    pub(super) fn event<'s>(
        &self,
        spans: Event<'_>,
        scratch: &'s mut String,
    ) -> Result<&'s [u8], Violation>
    where
        'b: 's,
    {
        let problem = match self.name(spans.event, scratch) {
            Ok(name) => return Ok(name),
            Err(problem) => problem,
        };
        Err(match problem {
            NameError::Missing if self.nameless_is_identify && spans.event.is_none() => {
                return Ok(b"$identify");
            }
            NameError::Missing => violation(
                "missing_event",
                "event",
                "The event has no name. Send it as the string `event`.",
            ),
            NameError::Invalid => violation(
                "invalid_event",
                "event",
                "The event's name must be a string without NUL and without lone surrogates.",
            ),
            NameError::TooLong => violation(
                "event_name_too_long",
                "event",
                "The event's name has more than 200 characters.",
            ),
        })
    }

    /// Returns the event's distinct id, and true if it is nobody's.
    #[inline]
    pub(super) fn distinct_id<'s>(
        &self,
        spans: Event<'_>,
        scratch: &'s mut String,
    ) -> Result<(&'s [u8], bool), Violation>
    where
        'b: 's,
    {
        let places = [
            (spans.distinct_id, "distinct_id"),
            (spans.rare.dollar_distinct_id, "$distinct_id"),
            (spans.properties.distinct_id, "properties.distinct_id"),
            (
                spans.properties.dollar_distinct_id,
                "properties.$distinct_id",
            ),
        ];
        let found = places.into_iter().find(|(span, _)| !span.is_none());
        let (span, field) = found.unwrap_or((Span::default(), "properties.distinct_id"));
        let problem = if span.kind() == Kind::Number {
            let digits = span.of(self.body);
            if digits.len() <= NAME_CHARS_MAX {
                return Ok((digits, is_zero(digits)));
            }
            NameError::TooLong
        } else {
            match self.name(span, scratch) {
                Ok(id) => return Ok((id, is_illegal(id))),
                Err(problem) => problem,
            }
        };
        Err(match problem {
            NameError::Missing => violation(
                "missing_distinct_id",
                field,
                "The event has no distinct id. Send `distinct_id` beside `event` or in its \
                 properties.",
            ),
            NameError::Invalid => violation(
                "invalid_distinct_id",
                field,
                "The distinct id must be a string (without NUL and without lone surrogates) or a number.",
            ),
            NameError::TooLong => violation(
                "distinct_id_too_long",
                field,
                "The distinct id has more than 200 characters.",
            ),
        })
    }

    /// Checks for a trimmed string of 1 to 200 characters without NUL.
    #[inline]
    fn name<'s>(&self, span: Span, scratch: &'s mut String) -> Result<&'s [u8], NameError>
    where
        'b: 's,
    {
        if span.is_none() {
            return Err(NameError::Missing);
        }
        if !span.is_string() {
            return Err(NameError::Invalid);
        }
        // Most are short, begin and end with a character that can be seen, and are what was sent.
        let raw = span.of(self.body);
        if let [0x21..0x80, ..] = raw
            && let [.., 0x21..0x80] = raw
            && raw.len() <= NAME_CHARS_MAX
            && span.kind() == Kind::String
        {
            return Ok(raw);
        }
        self.rare_name(span, scratch)
    }

    #[cold]
    fn rare_name<'s>(&self, span: Span, scratch: &'s mut String) -> Result<&'s [u8], NameError>
    where
        'b: 's,
    {
        let text = text::decode(self.body, span, scratch).map_err(|_| NameError::Invalid)?;
        let name = text.trim();
        if name.is_empty() {
            return Err(NameError::Missing);
        }
        // Without an escape there can be no NUL.
        if span.kind() == Kind::Escaped && name.contains('\0') {
            return Err(NameError::Invalid);
        }
        if name.len() > NAME_CHARS_MAX && name.chars().count() > NAME_CHARS_MAX {
            return Err(NameError::TooLong);
        }
        Ok(name.as_bytes())
    }
}

/// Error in a name or an id.
enum NameError {
    Missing,
    Invalid,
    TooLong,
}

/// Returns true if an id in quotes is one that many clients send by mistake, so that it is
/// nobody's: the event is stored, but changes no person.
#[inline]
pub fn is_illegal(distinct_id: &[u8]) -> bool {
    if let [b'0', b'.' | b'e' | b'E', ..] | [b'-', b'0', ..] = distinct_id {
        return is_quoted_zero(distinct_id);
    }
    // By length, as most ids have one that none of these has, or only one or two.
    let illegal: &[&str] = match distinct_id.len() {
        1 => &["0"],
        2 => &["id"],
        3 => &["nan"],
        4 => &["none", "null", "true", "user"],
        5 => &["email", "false", "guest"],
        6 => &["system"],
        7 => &["backend"],
        9 => &["anonymous", "undefined"],
        10 => &["distinctid"],
        11 => &["distinct_id"],
        14 => &["anonymous-user"],
        15 => &["[object object]"],
        17 => &["not_authenticated"],
        36 => &["00000000-0000-0000-0000-000000000000"],
        _ => return false,
    };
    illegal
        .iter()
        .any(|illegal| distinct_id.eq_ignore_ascii_case(illegal.as_bytes()))
}

/// Returns true if a JSON number is zero, which programs write in many ways: `-0`, `0.00`, `0e+00`.
/// As an id it is nobody's, like [illegal](is_illegal) ones.
#[inline]
pub fn is_zero(number: &[u8]) -> bool {
    matches!(number, [b'0' | b'-', ..]) && has_no_value(number)
}

/// Returns true if all digits of a JSON number before its exponent are zeros.
#[cold]
fn has_no_value(number: &[u8]) -> bool {
    let mut before = number
        .iter()
        .take_while(|byte| !matches!(byte, b'e' | b'E'));
    before.all(|byte| matches!(byte, b'-' | b'0' | b'.'))
}

/// Returns true if an id in quotes is a zero that a program wrote. An id of hexadecimal digits
/// alone, such as `0e5`, may be somebody's: programs write a sign or a point with an exponent.
#[cold]
fn is_quoted_zero(id: &[u8]) -> bool {
    number_len(id) == Some(id.len()) && is_zero(id) && !id.iter().all(u8::is_ascii_hexdigit)
}
