//! Errors of bodies that cannot be read.

use crate::{ApiError, ErrorType};
use http::StatusCode;

/// Repairs of a body, at most: more is no client's oversight. They are listed before they are made.
pub const REPAIRS_MAX: usize = 100_000;

/// Builds a 400 for an object or array neither of events nor with a batch.
pub fn invalid_body() -> ApiError {
    ApiError::invalid(
        "invalid_body",
        "The body must be an event, an array of events, or an object whose `batch` is an array of events.",
    )
}

/// Builds a 400 for a body that is not JSON from this byte on.
pub fn invalid_json(at: usize) -> ApiError {
    unreadable(
        "invalid_json",
        format!("The body is not valid JSON: it goes wrong at byte {at}."),
    )
}

/// Builds a 400 for a body that is not UTF-8 from this byte on.
pub fn invalid_utf8(at: usize) -> ApiError {
    unreadable(
        "invalid_utf8",
        format!("The body is not valid UTF-8: it goes wrong at byte {at}."),
    )
}

/// Builds a 400 for a body that is nested too deep.
pub fn too_deep(at: usize, depth_max: usize) -> ApiError {
    unreadable(
        "json_too_deep",
        format!("More than {depth_max} brackets and braces are open at byte {at}."),
    )
}

/// Builds a 413 for a body with more to repair than is worth it.
pub fn too_many_repairs() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        ErrorType::InvalidRequest,
        "body_too_complex",
        format!(
            "More than {REPAIRS_MAX} values are NaN or Infinity, or characters are no UTF-8. Send null instead of such numbers, and UTF-8."
        ),
    )
}

fn unreadable(code: &'static str, detail: String) -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        ErrorType::InvalidRequest,
        code,
        detail,
    )
}
