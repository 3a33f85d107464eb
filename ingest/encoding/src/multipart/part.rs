//! Part of an event, and the errors that name one.

use millrace_parse::ApiError;

/// Characters of a part's name that an error repeats.
const NAME_CHARS_MAX: usize = 64;

/// Part after decoding.
pub struct Part {
    pub name: String,
    pub text: String,
    /// True if the type says JSON.
    pub is_json: bool,
}

/// Name as errors repeat it.
pub fn shown(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}

/// Builds a 400 for parts that are not those of one event.
pub fn refused(detail: String) -> ApiError {
    ApiError::invalid("invalid_body", detail)
}
