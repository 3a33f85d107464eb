//! Errors about the values of fields.

/// Error about a value: the API's code, and a sentence.
pub(super) type FieldError = (&'static str, String);

/// Error about a value that is none of its kind.
pub(super) fn invalid(detail: &str) -> FieldError {
    ("invalid_input", detail.to_owned())
}
