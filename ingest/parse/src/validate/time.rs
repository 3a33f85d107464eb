//! Validation of timestamps.

use super::rules::{Rules, Violation, Warnings, violation};
use crate::span::{Event, Kind, Span};
use crate::{text, timestamp};
use millrace_rows::Micros;

/// Microseconds by which an event may be ahead of our clock.
const AHEAD_MICROS_MAX: i64 = 23 * 3_600 * 1_000_000;

impl Rules<'_> {
    /// Time of the event, and true if the client gave it.
    #[inline]
    pub(super) fn timestamp(
        &self,
        spans: Event<'_>,
        scratch: &mut String,
        warnings: &mut Warnings,
    ) -> Result<(Micros, bool), Violation> {
        let invalid = violation(
            "invalid_timestamp",
            "timestamp",
            "The timestamp must be ISO 8601, from 1970 on, such as `2026-01-31T12:00:00Z`.",
        );
        let span = spans.timestamp;
        let text = match span.kind() {
            Kind::Absent | Kind::Null => b"",
            Kind::String | Kind::Escaped => {
                text::decode_ascii(self.body, span, scratch).map_err(|_| invalid)?
            }
            _ => return Err(invalid),
        };
        if text.is_empty() {
            warnings.missing_timestamp = self.historical;
            return Ok((self.sent_before(spans.rare.offset), false));
        }
        let at = timestamp::parse(text).ok_or(invalid)?;
        let at = self.corrected(at, spans);
        if at.0 <= self.received_at.0.saturating_add(AHEAD_MICROS_MAX) {
            return Ok((at, true));
        }
        if self.historical {
            return Err(violation(
                "timestamp_in_future",
                "timestamp",
                "The timestamp is more than 23 hours ahead. Historical events have happened already.",
            ));
        }
        warnings.future_timestamp = true;
        Ok((self.received_at, true))
    }

    fn corrected(&self, at: Micros, spans: Event<'_>) -> Micros {
        if self.historical || self.shift == 0 || self.ignores_sent_at(spans) {
            return at;
        }
        Micros(at.plus_micros(self.shift).0.max(0))
    }

    fn ignores_sent_at(&self, spans: Event<'_>) -> bool {
        let option = spans.rare.options.disable_skew_correction;
        let by_option = match option.kind() {
            Kind::True => true,
            Kind::String => matches!(option.of(self.body), b"true" | b"1"),
            Kind::Number => option.of(self.body) == b"1",
            _ => false,
        };
        spans.properties.ignore_sent_at || (self.is_v1 && by_option)
    }

    /// Received time less the event's `offset` in milliseconds, if that is a sensible one.
    fn sent_before(&self, offset: Span) -> Micros {
        let millis = match offset.kind() {
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
}
