//! `multipart/form-data` bodies of one event: its JSON, and long texts beside it.
//!
//! | Part | Is |
//! |---|---|
//! | `event` | the event, a JSON object |
//! | `event.properties` | its properties, a JSON object, unless they are in `event` |
//! | `event.properties.<name>` | one of them, and nowhere else: a value, if it is JSON and its type says so, else a text |
//!
//! A part may be compressed, and says so in a `Content-Encoding` of its own. All parts together, as
//! sent, decoded or written into the event, have the limits in [`BodyDecoder::limits`], and those
//! in slow encodings the limits of these; past them the event is too large.

mod compose;
mod members;
mod part;

use crate::blocks::Blocks;
use crate::body_decoder::Encoded;
use crate::decode_error::{invalid_encoding, too_many_blocks};
use crate::{BodyBuf, BodyDecodeError, BodyDecoder, DecodeError, DecodeLimits, Encoding, Hints};
use bytes::Bytes;
use compose::Parts;
use futures_util::FutureExt;
use futures_util::future::ready;
use futures_util::stream;
use http::StatusCode;
use http::header::CONTENT_ENCODING;
use millrace_parse::{ApiError, ErrorType};
use multer::{Field, Multipart};
use part::{Part, refused, shown};
use std::convert::Infallible;

/// Parts of one body, at most; an event has a handful.
const PARTS_MAX: usize = 100;
/// Text between the parts, as a `Content-Type` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary(String);

impl Boundary {
    /// Reads a `Content-Type`.
    ///
    /// # Errors
    ///
    /// 415 for any other type than `multipart/form-data`, 400 for one without a boundary.
    pub fn of(content_type: Option<&[u8]>) -> Result<Self, ApiError> {
        let text = content_type.and_then(|value| std::str::from_utf8(value).ok());
        match multer::parse_boundary(text.unwrap_or_default()) {
            // An empty one would be found everywhere.
            Ok(boundary) if !boundary.is_empty() => Ok(Self(boundary)),
            Ok(_) | Err(multer::Error::NoBoundary) => {
                Err(malformed("its Content-Type has no boundary"))
            }
            Err(_) => Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                ErrorType::InvalidRequest,
                "unsupported_media_type",
                "This path accepts multipart/form-data only. Send JSON to /i/v0/ai/batch/.",
            )),
        }
    }
}

impl BodyDecoder<'_> {
    /// Makes the JSON of one event of a whole body in parts, with the project's key in it if the
    /// head had one.
    ///
    /// # Errors
    ///
    /// 400 for a body that is malformed or not expected, 415 for an encoding that is not supported,
    /// and [`BodyDecodeError::TooLarge`].
    pub fn parts(
        self,
        sent: &[u8],
        hints: Hints,
        boundary: Boundary,
        key: Option<&str>,
    ) -> Result<BodyBuf, BodyDecodeError> {
        let body = match self.body(sent, hints)? {
            None if sent.len() > self.limits.bytes_max => {
                return Err(BodyDecodeError::TooLarge(Encoded::default()));
            }
            None => Bytes::copy_from_slice(sent),
            Some(BodyBuf::Frame(bytes)) => bytes,
            Some(BodyBuf::Buffer(bytes)) => Bytes::from(bytes),
        };
        let mut limits = self.limits;
        if hints.is_any_slow() {
            limits.slow_bytes_max = limits.slow_bytes_max.saturating_sub(body.len());
        }
        if body.is_empty() {
            return Err(Self::empty_body().into());
        }
        let cut_short = || Err(malformed("it ends within a part").into());
        // All bytes are there, so nothing is ever waited for.
        let read = self.read_parts(body, boundary, limits).now_or_never();
        let parts = read.unwrap_or_else(cut_short)?;
        let mut json = self.buffers.take();
        parts.compose(key, &mut json, self.limits.bytes_max)?;
        Ok(BodyBuf::Buffer(json))
    }

    async fn read_parts(
        self,
        body: Bytes,
        boundary: Boundary,
        mut limits: DecodeLimits,
    ) -> Result<Parts, BodyDecodeError> {
        let mut blocks = Blocks::of(body.len());
        let whole = stream::once(ready(Ok::<_, Infallible>(body)));
        let mut multipart = Multipart::new(whole, boundary.0);
        let mut parts = Parts::default();
        let mut count = 0;
        while let Some(field) = multipart
            .next_field()
            .await
            .map_err(|error| unreadable(&error))?
        {
            count += 1;
            if count > PARTS_MAX {
                return Err(refused(format!("A body has at most {PARTS_MAX} parts.")).into());
            }
            let (part, encoding) = self.read_part(field, limits, &mut blocks).await?;
            blocks.next_part(part.text.len());
            limits = limits.left_after(part.text.len(), encoding);
            parts.add(part)?;
        }
        Ok(parts)
    }

    /// Reads a part; returns it and its encoding.
    async fn read_part(
        self,
        field: Field<'_>,
        limits: DecodeLimits,
        blocks: &mut Blocks,
    ) -> Result<(Part, Encoding), BodyDecodeError> {
        let name = field.name().unwrap_or_default().to_owned();
        let is_json = field.content_type().is_some_and(|mime| {
            mime.subtype() == "json" || mime.suffix().is_some_and(|it| it == "json")
        });
        let encoding = field.headers().get(CONTENT_ENCODING);
        let encoding = Encoding::named(encoding.map(http::HeaderValue::as_bytes))?;
        let sent = field.bytes().await.map_err(|error| unreadable(&error))?;
        // Keys are never searched in one part: only its encoding matters, and only if that is slow.
        let too_large = || {
            let slow = Some(encoding).filter(|encoding| encoding.is_slow());
            BodyDecodeError::too_large(slow.unwrap_or_default())
        };
        let bytes = if encoding == Encoding::Identity {
            Vec::from(sent)
        } else if limits.of(encoding) == 0 {
            return Err(too_large());
        } else {
            let mut decoded = Vec::new();
            let mut decoder = self.decoder.borrow_mut();
            let bytes_max = limits.of(encoding);
            let done = decoder.decode_part(encoding, &sent, &mut decoded, bytes_max, blocks);
            done.map_err(|error| match error {
                DecodeError::Broken(detail) => invalid_encoding(detail).into(),
                DecodeError::TooManyBlocks => too_many_blocks().into(),
                DecodeError::TooLarge => too_large(),
            })?;
            decoded
        };
        if bytes.len() > limits.bytes_max {
            return Err(BodyDecodeError::TooLarge(Encoded::default()));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let shown = shown(&name);
            let detail = format!(
                "The part `{shown}` is not text: it is not valid UTF-8 from byte {at} on. Send texts and JSON only."
            );
            ApiError::new(StatusCode::BAD_REQUEST, ErrorType::InvalidRequest, "invalid_utf8", detail).at(shown)
        })?;
        let part = Part {
            name,
            text,
            is_json,
        };
        Ok((part, encoding))
    }
}

/// Builds a 400 for a body that cannot be split into parts.
fn malformed(why: &str) -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        ErrorType::InvalidRequest,
        "invalid_body",
        format!("The body is not multipart/form-data: {why}."),
    )
}

/// Builds a 400 in the library's words, which are about the form and have no more of the body than
/// a name.
fn unreadable(error: &multer::Error) -> ApiError {
    malformed(&shown(&error.to_string()))
}
