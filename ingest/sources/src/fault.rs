//! Words for what is wrong with records in every format.

use crate::RecordError;
use std::borrow::Cow;

impl RecordError {
    /// An error; `message` is a sentence for people, with what to do.
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

    /// The same error of a field in which JSON stands.
    pub(crate) fn of(self, field: &'static str) -> Self {
        Self {
            field: Some(Cow::Borrowed(field)),
            ..self
        }
    }

    /// A record without a name for its event.
    pub(crate) fn missing_event(field: &'static str) -> Self {
        Self::new(
            "missing_event",
            Some(field),
            format!("The event has no name: `{field}` must be a text that is not blank."),
        )
    }

    /// A record that does not say whose event it is.
    pub(crate) fn missing_distinct_id(fields: &'static str) -> Self {
        Self::new(
            "missing_distinct_id",
            Some(fields),
            format!(
                "The record does not say whose event it is: it has none of {fields}. Set \
                 `skip_without_distinct_id` to leave such records out."
            ),
        )
    }
}
