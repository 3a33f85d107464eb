//! Clock skew of a client, from the time at which it says it sent a request.

use crate::span::{Document, Span};
use crate::{ParseContext, Protocol, text, timestamp};
use millrace_rows::Micros;

/// Difference up to which it is the time a request travels, not a wrong clock.
const TRANSIT_MICROS_MAX: u64 = 60_000_000;
/// Value of the query's `_` below which it is in seconds, not milliseconds.
const MILLIS_MIN: i64 = 100_000_000_000;

/// Microseconds by which a live event's timestamp has to be moved.
pub fn shift(document: &Document, body: &[u8], context: &ParseContext<'_>) -> i64 {
    let Some(sent_at) = sent_at(document, body, context) else {
        return 0;
    };
    let difference = context.received_at.0.saturating_sub(sent_at.0);
    if difference.unsigned_abs() > TRANSIT_MICROS_MAX {
        difference
    } else {
        0
    }
}

/// Time at which the client says it sent the request; an unreadable one counts as not given.
fn sent_at(document: &Document, body: &[u8], context: &ParseContext<'_>) -> Option<Micros> {
    if let Protocol::V1 { sent_at, .. } = context.protocol {
        return timestamp::parse(sent_at?.trim().as_bytes());
    }
    from_body(body, document.sent_at)
        .or_else(|| from_body(body, document.sent_at_camel))
        .or_else(|| from_query(context.sent_at_query?))
}

fn from_body(body: &[u8], span: Span) -> Option<Micros> {
    if !span.is_string() {
        return None;
    }
    let mut scratch = String::new();
    let text = text::decode(body, span, &mut scratch).ok()?;
    timestamp::parse(text.trim().as_bytes())
}

fn from_query(text: &str) -> Option<Micros> {
    let number: i64 = text.trim().parse().ok().filter(|number| *number >= 0)?;
    Some(if number < MILLIS_MIN {
        Micros::from_seconds(number)
    } else {
        Micros::from_millis(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_is_in_milliseconds_or_seconds() {
        let table = [
            ("1795189098278", Some(1_795_189_098_278_000)),
            ("1795189098", Some(1_795_189_098_000_000)),
            ("99999999999", Some(99_999_999_999_000_000)),
            ("100000000000", Some(100_000_000_000_000)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("yesterday", None),
            ("99999999999999999999", None),
        ];
        for (text, micros) in table {
            assert_eq!(from_query(text), micros.map(Micros), "{text}");
        }
    }
}
