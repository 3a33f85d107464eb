//! Constructors of record errors that all formats share.

use crate::RecordError;
use std::borrow::Cow;

impl RecordError {
    /// Creates an error; `message` is a sentence for people, with advice.
    pub(crate) fn new(
        code: &'static str,
        field: Option<&'static str>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            field: field.map(Cow::Borrowed),
            message: message.into(),
        }
    }

    /// Sets the field of an error in JSON that is nested in a field.
    pub(crate) fn in_field(self, field: &'static str) -> Self {
        Self {
            field: Some(Cow::Borrowed(field)),
            ..self
        }
    }

    /// Error for a record without a name for its event.
    pub(crate) fn missing_event(field: &'static str) -> Self {
        Self::new(
            "missing_event",
            Some(field),
            format!("The event has no name: `{field}` must be a text that is not blank."),
        )
    }

    /// Error for a record without any id of a person.
    pub(crate) fn missing_distinct_id(fields: &'static str) -> Self {
        Self::new(
            "missing_distinct_id",
            Some(fields),
            format!(
                "The record has no distinct id: it has none of {fields}. Set \
                 `skip_without_distinct_id` to skip such records."
            ),
        )
    }
}
