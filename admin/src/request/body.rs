//! Reading a body: from its bytes to the type that a handler takes.

use crate::error::ApiError;
use crate::request::violation;
use crate::schema::BodySchema;
use crate::stopping::Stopping;
use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use millrace_catalog::bounded_json::{self, JsonError};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::pin::pin;
use std::time::Duration;

/// UTF-8 of the mark that some editors and libraries write before a text. RFC 8259 has readers
/// ignore it, and ingestion does.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a body to its end.
///
/// # Errors
///
/// 413 as soon as it is known to be too long, 400 if the client breaks off or is too slow, 503 if
/// it pauses while the server stops.
pub(crate) async fn gather<S, B>(
    headers: &HeaderMap,
    stream: S,
    bytes_max: usize,
    timeout: Duration,
    stopping: &Stopping,
) -> Result<Bytes, ApiError>
where
    S: Stream<Item = Result<B, warp::Error>>,
    B: Buf,
{
    if declared_bytes(headers).is_some_and(|bytes| bytes > bytes_max) {
        return Err(ApiError::payload_too_large(bytes_max));
    }
    within(timeout, all_of(stream, bytes_max, stopping)).await
}

/// Length of the body by `Content-Length`; `None` without the header.
pub(crate) fn declared_bytes(headers: &HeaderMap) -> Option<usize> {
    let declared = headers.get(CONTENT_LENGTH)?.to_str().ok()?;
    declared.parse().ok()
}

async fn within(
    limit: Duration,
    gathered: impl Future<Output = Result<Bytes, ApiError>>,
) -> Result<Bytes, ApiError> {
    let gathered = tokio::time::timeout(limit, gathered).await;
    gathered.unwrap_or_else(|_| {
        let reason = format!("it did not arrive within {} seconds", limit.as_secs());
        Err(ApiError::parse_error(&reason))
    })
}

async fn all_of<S, B>(stream: S, bytes_max: usize, stopping: &Stopping) -> Result<Bytes, ApiError>
where
    S: Stream<Item = Result<B, warp::Error>>,
    B: Buf,
{
    let mut stream = pin!(stream);
    let mut body = BytesMut::new();
    loop {
        let chunk = tokio::select! {
            // What has come counts, however late it is looked at.
            biased;
            chunk = stream.next() => chunk,
            () = stopping.stalled() => return Err(ApiError::unavailable()),
        };
        let Some(chunk) = chunk else {
            return Ok(body.freeze());
        };
        let mut chunk = chunk.map_err(|error| {
            tracing::debug!(%error, "a body ended early");
            ApiError::parse_error("it ended early")
        })?;
        if body.len() + chunk.remaining() > bytes_max {
            return Err(ApiError::payload_too_large(bytes_max));
        }
        let bytes = chunk.copy_to_bytes(chunk.remaining());
        body.extend_from_slice(&bytes);
    }
}

/// Parses a body as JSON and checks it against its schema. An empty one counts as `{}`.
///
/// # Errors
///
/// 415 for another content type, 400 for invalid JSON or too many values, and 400 for the first
/// field that is wrong.
pub(crate) fn check(
    headers: &HeaderMap,
    body: &Bytes,
    schema: &BodySchema,
) -> Result<Value, ApiError> {
    if body.is_empty() {
        return checked(json!({}), schema);
    }
    if !is_json(headers) {
        return Err(ApiError::unsupported_media_type());
    }
    let text = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    let value =
        bounded_json::parse(text, bounded_json::VALUES_MAX).map_err(|error| match error {
            JsonError::TooManyValues(values_max) => ApiError::body_too_complex(values_max),
            JsonError::Malformed(error) => ApiError::parse_error(&error.to_string()),
        })?;
    checked(value, schema)
}

fn checked(value: Value, schema: &BodySchema) -> Result<Value, ApiError> {
    let validator = (**schema.validator).as_ref().map_err(|error| {
        tracing::error!(error, schema = schema.name, "a schema cannot be used");
        ApiError::internal()
    })?;
    match violation::first(&schema.schema, validator, &value) {
        Some(error) => Err(error),
        None => Ok(value),
    }
}

/// Deserializes a checked body into the handler's type.
///
/// # Errors
///
/// 400 for the first field that the schema allows and the type refuses.
pub(crate) fn read<T: DeserializeOwned>(body: Value) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(body).map_err(|error| {
        let attr = error.path().to_string().replace(['.', '['], "__");
        let attr = attr.replace(']', "");
        let attr = (attr != "__" && !attr.is_empty()).then_some(attr);
        ApiError::invalid("invalid_input", attr.as_deref(), sentence(error.inner()))
    })
}

/// Error message of serde, as a sentence.
fn sentence(error: &serde_json::Error) -> String {
    format!("This cannot be used: {error}.")
}

/// Returns true if the headers declare uncompressed JSON in UTF-8, or nothing.
fn is_json(headers: &HeaderMap) -> bool {
    let text = |name| match headers.get(name) {
        Some(value) => value.to_str().map(Some),
        None => Ok(None),
    };
    let plain = match text(CONTENT_ENCODING) {
        Ok(encoding) => encoding.is_none_or(|encoding| encoding.eq_ignore_ascii_case("identity")),
        Err(_) => false,
    };
    let json = match text(CONTENT_TYPE) {
        Ok(Some(content_type)) => {
            let mut parts = content_type.split(';').map(str::trim);
            let essence = parts.next().unwrap_or_default();
            let utf8 = |part: &str| {
                let part = part.to_ascii_lowercase();
                !part.starts_with("charset=") || part.trim_matches('"').ends_with("utf-8")
            };
            essence.eq_ignore_ascii_case("application/json") && parts.all(utf8)
        }
        Ok(None) => true,
        Err(_) => false,
    };
    plain && json
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[test]
    fn only_uncompressed_json_in_utf8_is_accepted() {
        let table = [
            (None, None, true),
            (Some("application/json"), None, true),
            (
                Some("Application/JSON; charset=UTF-8"),
                Some("identity"),
                true,
            ),
            (Some("application/json;charset=\"utf-8\""), None, true),
            (Some("application/json; charset=latin1"), None, false),
            (Some("text/plain"), None, false),
            (Some("application/x-www-form-urlencoded"), None, false),
            (Some("application/json"), Some("gzip"), false),
        ];
        for (content_type, encoding, expected) in table {
            let mut headers = HeaderMap::new();
            for (name, value) in [(CONTENT_TYPE, content_type), (CONTENT_ENCODING, encoding)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            assert_eq!(is_json(&headers), expected, "{content_type:?} {encoding:?}");
        }
    }

    #[tokio::test]
    async fn a_body_that_does_not_arrive_in_time_is_refused() {
        let held = futures_util::stream::pending::<Result<Bytes, warp::Error>>();
        let stopping = Stopping::default();
        let gathered = within(Duration::ZERO, all_of(held, 1, &stopping)).await;
        let expected = ApiError::parse_error("it did not arrive within 0 seconds");
        assert_eq!(gathered, Err(expected));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_not_pause_for_a_second_while_the_server_stops() {
        let table = [
            (false, 5_000, true),
            (true, 900, true),
            (true, 1_100, false),
        ];
        for (stops, pause_millis, is_read) in table {
            let stopping = Stopping::default();
            if stops {
                stopping.begin();
            }
            let parts = futures_util::stream::unfold(0, |count| async move {
                tokio::time::sleep(Duration::from_millis(pause_millis)).await;
                let part = Ok::<_, warp::Error>(Bytes::from_static(b"a"));
                (count < 3).then_some((part, count + 1))
            });
            let expected = match is_read {
                true => Ok(Bytes::from_static(b"aaa")),
                false => Err(ApiError::unavailable()),
            };
            let gathered = all_of(parts, 3, &stopping).await;
            assert_eq!(gathered, expected, "{stops} {pause_millis}");
        }
    }

    #[test]
    fn a_value_that_the_type_refuses_is_answered_with_its_field() {
        #[derive(Debug, Deserialize)]
        #[allow(dead_code, reason = "never made")]
        struct Inner {
            number: i8,
        }
        #[derive(Debug, Deserialize)]
        #[allow(dead_code, reason = "never made")]
        struct Outer {
            inner: Vec<Inner>,
        }
        let error = read::<Outer>(json!({ "inner": [{ "number": 1 }, { "number": 300 }] }));
        let expected = ApiError::invalid(
            "invalid_input",
            Some("inner__1__number"),
            "This cannot be used: invalid value: integer `300`, expected i8.",
        );
        assert_eq!(error.unwrap_err(), expected);
    }
}
