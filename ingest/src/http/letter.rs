//! Errors as they go over the wire, for those who are told so without hyper.
//!
//! A core that sends thousands of requests away in a second says the same to all of them. So the letter
//! is written once a second, when its date changes, and copied with another request id and
//! `Retry-After`.

use super::answer::Answer;
use http::HeaderValue;
use http::header::{CONTENT_LENGTH, DATE};
use memchr::memmem;
use millrace_parse::ApiError;
use millrace_rows::Micros;
use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};
use uuid::Uuid;

/// The last letter that was written.
#[derive(Debug, Default)]
pub struct Letter {
    code: &'static str,
    second: i64,
    text: Vec<u8>,
    /// Where the request id is.
    request_id: Range<usize>,
    /// Where the one digit of `Retry-After` is.
    retry_after: Range<usize>,
}

// === impl Letter ===

impl Letter {
    /// The whole answer to a request without an origin.
    pub fn to(&mut self, error: &ApiError, request_id: Uuid, now: Micros) -> Vec<u8> {
        let Some(digit @ 0..10) = error.retry_after_seconds else {
            return written(error, None, request_id, now);
        };
        let second = now.0.div_euclid(1_000_000);
        if self.second != second || self.code != error.code || self.text.is_empty() {
            *self = Self::of(error, request_id, now, digit);
        }
        let mut text = self.text.clone();
        if let Some(place) = text.get_mut(self.request_id.clone()) {
            request_id.hyphenated().encode_lower(place);
        }
        if let Some([place]) = text.get_mut(self.retry_after.clone()) {
            *place = b'0' + digit as u8;
        }
        text
    }

    fn of(error: &ApiError, request_id: Uuid, now: Micros, digit: u32) -> Self {
        let text = written(error, None, request_id, now);
        let place = |before: &str, value: String| {
            let at = memmem::find(&text, format!("\r\n{before}: {value}\r\n").as_bytes());
            let start = at.map_or(text.len(), |at| at + before.len() + 4);
            start..start + value.len()
        };
        Self {
            code: error.code,
            second: now.0.div_euclid(1_000_000),
            request_id: place("x-request-id", request_id.to_string()),
            retry_after: place("retry-after", digit.to_string()),
            text,
        }
    }
}

/// An error in full.
pub fn written(
    error: &ApiError,
    origin: Option<&HeaderValue>,
    request_id: Uuid,
    now: Micros,
) -> Vec<u8> {
    let response = Answer::error(error).into_response(origin, request_id);
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
    fn a_copied_letter_is_what_would_have_been_written() {
        let mut letter = Letter::default();
        let codes = ["overloaded", "queue_full"];
        for step in 0..2_000_u32 {
            let code = codes[(step / 700) as usize % 2];
            let mut error = ApiError::unavailable(code, "Send the request again.");
            // One without the header, and one with two digits, are no letters.
            error.retry_after_seconds = Some(2 + step % 11).filter(|it| *it != 9);
            let now = Micros(1_700_000_000_000_000 + i64::from(step) * 7_000);
            let id = Uuid::from_u128(u128::from(step) << 90 | 0x8000_0000_0000_0000);
            let whole = written(&error, None, id, now);
            let copy = letter.to(&error, id, now);
            assert_eq!(String::from_utf8(copy), String::from_utf8(whole), "{step}");
        }
    }
}
