//! Cached error responses, as they go over the wire without hyper.
//!
//! A core that rejects thousands of requests in a second sends the same response to all of them. So
//! the response is rendered once a second, when its date changes, and copied with another request
//! id and `Retry-After`.

use crate::response::HttpResponse;
use http::HeaderValue;
use http::header::{CONTENT_LENGTH, DATE};
use memchr::memmem;
use millrace_parse::ApiError;
use millrace_rows::Micros;
use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};
use uuid::Uuid;

/// Last error response that was rendered.
#[derive(Debug, Default)]
pub struct CachedErrorResponse {
    code: &'static str,
    second: i64,
    text: Vec<u8>,
    /// Bytes of the request id.
    request_id: Range<usize>,
    /// Byte of the one digit of `Retry-After`.
    retry_after: Range<usize>,
}

// === impl CachedErrorResponse ===

impl CachedErrorResponse {
    /// Renders the whole response to a request without an origin.
    pub fn render(&mut self, error: &ApiError, request_id: Uuid, now: Micros) -> Vec<u8> {
        let Some(digit @ 0..10) = error.retry_after_seconds else {
            return error_bytes(error, None, request_id, now);
        };
        let second = now.0.div_euclid(1_000_000);
        if self.second != second || self.code != error.code || self.text.is_empty() {
            *self = Self::of(error, request_id, now, digit);
        }
        let mut text = self.text.clone();
        if let Some(bytes) = text.get_mut(self.request_id.clone()) {
            request_id.hyphenated().encode_lower(bytes);
        }
        if let Some([byte]) = text.get_mut(self.retry_after.clone()) {
            *byte = b'0' + digit as u8;
        }
        text
    }

    fn of(error: &ApiError, request_id: Uuid, now: Micros, digit: u32) -> Self {
        let text = error_bytes(error, None, request_id, now);
        let range_of = |header: &str, value: String| {
            let at = memmem::find(&text, format!("\r\n{header}: {value}\r\n").as_bytes());
            let start = at.map_or(text.len(), |at| at + header.len() + 4);
            start..start + value.len()
        };
        Self {
            code: error.code,
            second: now.0.div_euclid(1_000_000),
            request_id: range_of("x-request-id", request_id.to_string()),
            retry_after: range_of("retry-after", digit.to_string()),
            text,
        }
    }
}

/// Renders an error response without the cache.
pub fn error_bytes(
    error: &ApiError,
    origin: Option<&HeaderValue>,
    request_id: Uuid,
    now: Micros,
) -> Vec<u8> {
    let response = HttpResponse::error(error).into_response(origin, request_id);
    let (mut parts, body) = response.into_parts();
    let body = body.into_inner().unwrap_or_default();
    let headers = &mut parts.headers;
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let since_1970 = Duration::from_micros(u64::try_from(now.0).unwrap_or_default());
    let date = httpdate::fmt_http_date(UNIX_EPOCH + since_1970);
    if let Ok(date) = HeaderValue::from_str(&date) {
        headers.insert(DATE, date);
    }
    let mut out = format!("HTTP/1.1 {}\r\n", parts.status).into_bytes();
    for (name, value) in headers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&body);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_response_equals_a_rendered_one() {
        let mut cached_error = CachedErrorResponse::default();
        let codes = ["overloaded", "queue_full"];
        for step in 0..2_000_u32 {
            let code = codes[(step / 700) as usize % 2];
            let mut error = ApiError::unavailable(code, "Send the request again.");
            // Responses without the header, and with two digits, are not cached.
            error.retry_after_seconds = Some(2 + step % 11).filter(|it| *it != 9);
            let now = Micros(1_700_000_000_000_000 + i64::from(step) * 7_000);
            let id = Uuid::from_u128(u128::from(step) << 90 | 0x8000_0000_0000_0000);
            let whole = error_bytes(&error, None, id, now);
            let copy = cached_error.render(&error, id, now);
            assert_eq!(String::from_utf8(copy), String::from_utf8(whole), "{step}");
        }
    }
}
