//! Checks that only the v1 protocol makes: every event has a uuid, and no two the same one, as the
//! response names events by it.

use crate::report::UuidText;
use crate::reporter::attr;
use crate::span::{BodyShape, EventSpans};
use crate::{ApiError, ids, text};
use uuid::Uuid;

/// Uuids of the events as they are spelled.
pub fn uuids(body: &[u8], events: &[EventSpans]) -> Result<Vec<UuidText>, ApiError> {
    let mut texts = Vec::with_capacity(events.len());
    let mut seen = Vec::with_capacity(events.len());
    for (event, index) in events.iter().zip(0_u32..) {
        let (uuid, text) = uuid(body, event).map_err(|error| error.at(place(index)))?;
        texts.push(text);
        seen.push((uuid, index));
    }
    seen.sort_unstable();
    for pair in seen.windows(2) {
        if let [(one, _), (other, index)] = pair
            && one == other
        {
            return Err(repeated().at(place(*index)));
        }
    }
    Ok(texts)
}

fn place(index: u32) -> String {
    attr(BodyShape::Batch, index, "uuid")
}

fn uuid(body: &[u8], event: &EventSpans) -> Result<(Uuid, UuidText), ApiError> {
    let span = event.uuid;
    if span.is_none() {
        return Err(missing());
    }
    if !span.is_string() {
        return Err(invalid());
    }
    let mut scratch = String::new();
    let text = text::decode(body, span, &mut scratch).map_err(|_| invalid())?;
    let text = text.trim();
    if text.is_empty() {
        return Err(missing());
    }
    let uuid = ids::parse(text.as_bytes()).ok_or_else(invalid)?;
    Ok((uuid, UuidText::new(text).ok_or_else(invalid)?))
}

fn missing() -> ApiError {
    ApiError::invalid(
        "missing_uuid",
        "Every event of this protocol needs a `uuid`.",
    )
}

fn invalid() -> ApiError {
    ApiError::invalid(
        "invalid_uuid",
        "The uuid must be 32 hexadecimal digits, with or without hyphens.",
    )
}

fn repeated() -> ApiError {
    ApiError::invalid(
        "repeated_uuid",
        "Two events of the request have this `uuid`. Give each its own.",
    )
}
