//! Errors of bodies that cannot be read.

use crate::characters::is_white;
use crate::{ApiError, ErrorType};
use http::StatusCode;

/// Mark that some programs write before a text in UTF-8.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

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

/// Builds a 400 for a body that goes on, from this byte on, behind a whole text of JSON.
pub fn more_than_json(body: &[u8], at: usize) -> ApiError {
    let (text, more) = body.split_at_checked(at).unwrap_or_default();
    let mut white = text.iter().rev().take_while(|byte| is_white(**byte));
    let is_next_line = white.any(|byte| *byte == b'\n');
    let advice = match more {
        [b'{', ..] if is_next_line => {
            "It looks like JSON lines. Send the events in one array, as `batch`."
        }
        [b'{' | b'[', ..] => {
            "It looks like several texts; members of a gzip body and frames of a zstd body are \
             read as one. Send the events in one array, as `batch`."
        }
        _ => "Send nothing behind it.",
    };
    unreadable(
        "invalid_json",
        format!(
            "The body is not valid JSON: a whole text of JSON ends before byte {at}, where more \
             follows. {advice}"
        ),
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
            "More than {REPAIRS_MAX} values are NaN or Infinity, or characters are not UTF-8. Send null instead of such numbers, and UTF-8."
        ),
    )
}

/// Adds what to do to the error of a body that is in another format.
pub fn advised(mut error: ApiError, body: &[u8]) -> ApiError {
    let advice = match body {
        // gzip, zstd and zlib: one compression was taken off before.
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x78, 0x01 | 0x9c | 0xda, ..] => {
            "It looks compressed twice. Compress it once."
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, b'{' | b'[', ..] | [b'{' | b'[', 0, ..] => {
            "It looks like UTF-16. Send UTF-8."
        }
        [b'-', b'-', ..] => {
            "It looks like multipart/form-data. Send JSON; only /i/v0/ai accepts an event in \
             parts."
        }
        [b'd', b'a', b't', b'a', b'=', ..] => {
            "It looks like a form. Send it as application/x-www-form-urlencoded."
        }
        _ => return error,
    };
    error.detail = format!("{} {advice}", error.detail).into();
    error
}

fn unreadable(code: &'static str, detail: String) -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        ErrorType::InvalidRequest,
        code,
        detail,
    )
}
