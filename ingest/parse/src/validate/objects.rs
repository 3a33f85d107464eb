//! Validation of the fields that have to be objects.

use super::rules::{Rules, Violation, violation};
use crate::span::{Event, Kind};

impl Rules<'_> {
    #[inline]
    pub(super) fn check_objects(&self, spans: Event<'_>) -> Result<(), Violation> {
        let properties = spans.properties.whole;
        if !properties.is_none() && properties.kind() != Kind::Object {
            return Err(violation(
                "invalid_properties",
                "properties",
                "`properties` must be an object.",
            ));
        }
        if !spans.has_rare() {
            return Ok(());
        }
        let objects = [
            (spans.rare.set, "$set"),
            (spans.rare.set_once, "$set_once"),
            (spans.rare.groups, "$groups"),
        ];
        for (span, field) in objects {
            if !span.is_none() && span.kind() != Kind::Object {
                return Err(violation(
                    "invalid_properties",
                    field,
                    "This must be an object.",
                ));
            }
        }
        let unset = spans.rare.unset;
        let is_valid = match unset.kind() {
            Kind::Absent | Kind::Null | Kind::Object => true,
            Kind::Array => is_array_of_strings(unset.of(self.body)),
            _ => false,
        };
        if is_valid {
            return Ok(());
        }
        Err(violation(
            "invalid_properties",
            "$unset",
            "`$unset` must be an array of strings or an object.",
        ))
    }
}

/// Returns true if every element of an array, known to be JSON, is a string.
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
        in_string || *byte == b',' || crate::characters::is_white(*byte)
    })
}
