//! Validation of one event: whether it may be stored, and as what.
//!
//! The order of the checks is the order of the contract's table of fields: the first rule that is
//! broken names the rejection. Names and distinct ids are checked in `names`, timestamps in `time`,
//! and fields that have to be objects in `objects`.

mod names;
mod objects;
mod rules;
mod time;

pub use names::{NAME_CHARS_MAX, is_illegal, is_zero};
pub use rules::{Rules, Violation, Warnings};

use crate::ids;
use crate::span::{Event, Kind, Span};
use crate::text;
use millrace_rows::Micros;
use rules::violation;
use uuid::Uuid;

/// Code of an event that has more bytes than one may have.
pub const TOO_LARGE: &str = "event_too_large";

/// Valid event.
#[derive(Clone, Copy, Debug)]
pub struct Accepted<'s> {
    pub uuid: Uuid,
    pub has_client_uuid: bool,
    /// UTF-8 text, like the next one.
    pub event: &'s [u8],
    pub distinct_id: &'s [u8],
    pub timestamp: Micros,
    pub warnings: Warnings,
}

/// Scratch space for strings that have to be decoded.
#[derive(Debug, Default)]
pub struct Scratch {
    event: String,
    distinct_id: String,
    other: String,
    identity: Vec<u8>,
}

impl<'b> Rules<'b> {
    /// Validates the event with this index in the request.
    #[inline]
    pub fn validate<'s>(
        &self,
        spans: Event<'_>,
        index: u32,
        scratch: &'s mut Scratch,
    ) -> Result<Accepted<'s>, Violation>
    where
        'b: 's,
    {
        self.check_whole(spans)?;
        let event = self.event(spans, &mut scratch.event)?;
        let (distinct_id, is_nobodys) = self.distinct_id(spans, &mut scratch.distinct_id)?;
        let mut warnings = Warnings {
            illegal_distinct_id: is_nobodys,
            ..Warnings::default()
        };
        let (timestamp, has_timestamp) =
            self.timestamp(spans, &mut scratch.other, &mut warnings)?;
        let client_uuid = self.client_uuid(spans.uuid, &mut scratch.other)?;
        self.check_objects(spans)?;
        let uuid = match client_uuid {
            Some(uuid) => uuid,
            None if self.historical && has_timestamp => {
                let identity = ids::Identity {
                    project_id: self.project_id,
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
            warnings,
        })
    }

    fn check_whole(&self, spans: Event<'_>) -> Result<(), Violation> {
        if spans.whole.len() > self.event_bytes_max {
            return Err(violation(
                TOO_LARGE,
                "",
                // The reporter names the limit.
                "The event's JSON is larger than one event may be.",
            ));
        }
        if spans.whole.kind() != Kind::Object {
            return Err(violation(
                "invalid_event",
                "",
                "An event must be a JSON object.",
            ));
        }
        if self.is_single || spans.rare.historical_migration.is_none() {
            return Ok(());
        }
        Err(violation(
            "invalid_historical_migration",
            "historical_migration",
            "`historical_migration` belongs beside `batch`, not in an event of it; it is true or false for the whole request.",
        ))
    }

    #[inline]
    fn client_uuid(&self, span: Span, scratch: &mut String) -> Result<Option<Uuid>, Violation> {
        let invalid = violation(
            "invalid_uuid",
            "uuid",
            "The uuid must be 32 hexadecimal digits, with or without hyphens; omit it to get one.",
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
}
