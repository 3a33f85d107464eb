//! From what was sent to the JSON that was meant.

use super::body::{gather, overloaded};
use super::encoding::Encoding;
use super::query::Query;
use super::{Call, form};
use crate::budget::Share;
use crate::buffers::Whole;
use crate::core::Core;
use crate::metrics::Stage;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use hyper::body::Incoming;
use millrace_parse::{ApiError, ErrorType};
use std::borrow::Cow;

/// A body as JSON, and the memory it is accounted for.
pub struct Payload {
    /// The JSON text, not yet looked at.
    pub json: Whole,
    /// Held until the request is answered.
    pub share: Share,
}

/// What the request says of its payload's encoding.
#[derive(Clone, Copy, Debug, Default)]
struct Hints {
    content_encoding: Encoding,
    compression: Encoding,
    form: bool,
}

/// Reads and decodes the body, or a GET's `data`.
pub async fn read(
    call: &Call<'_>,
    query: &Query<'_>,
    body: &mut Incoming,
) -> Result<Payload, ApiError> {
    let core = call.core;
    let hints = Hints {
        content_encoding: content_encoding(call)?,
        compression: named(query.compression.as_deref())?,
        form: call.head.form,
    };
    let mut share = core.shared.budget.share();
    let mut sent = Whole::Frame(Bytes::new());
    if call.parts.method != Method::GET {
        let started = call.now();
        sent = gather(body, &core.buffers, &mut share, &core.shared.config.limits).await?;
        call.body_ended.set(true);
        call.took(Stage::Body, started);
    }
    let sent_bytes = sent.len();
    let started = call.now();
    let json = match &query.data {
        Some(data) if sent.is_empty() => decode_data(core, data, hints.compression)?,
        _ => decode_body(core, sent, hints)?,
    };
    call.took(Stage::Decode, started);
    core.metrics.body(sent_bytes, json.len());
    if json.iter().all(u8::is_ascii_whitespace) {
        return Err(empty_body());
    }
    if !share.grow_to(sent_bytes.max(json.len())) {
        return Err(overloaded());
    }
    Ok(Payload { json, share })
}

/// A whole body: compressed, a form, both, or neither.
fn decode_body(core: &Core, sent: Whole, hints: Hints) -> Result<Whole, ApiError> {
    // A form's encodings are its field's, not the body's; its body may be compressed besides.
    let compression = if hints.form && !is_compressed(&sent) {
        Encoding::Identity
    } else {
        hints.compression
    };
    let encoding = match (hints.content_encoding, compression) {
        (Encoding::Identity, Encoding::Identity) => Encoding::of_magic(&sent),
        // A text that begins like JSON is none of these; some SDKs promise them all the same.
        (Encoding::Identity, Encoding::Base64 | Encoding::Lz64) if !form::is_form(&sent) => {
            Encoding::Identity
        }
        (Encoding::Identity, Encoding::Base64 | Encoding::Lz64) if sent.starts_with(b"data=") => {
            return decode_form(core, &sent, hints.compression);
        }
        (Encoding::Identity, named) | (named, _) => named,
    };
    let mut json = step(core, encoding, sent)?;
    if encoding == Encoding::Base64 {
        json = unwrap_magic(core, json)?;
    }
    if hints.form && form::is_form(&json) {
        return decode_form(core, &json, hints.compression);
    }
    Ok(json)
}

fn is_compressed(sent: &[u8]) -> bool {
    Encoding::of_magic(sent) != Encoding::Identity
}

/// A form's field `data`.
fn decode_form(core: &Core, body: &[u8], hint: Encoding) -> Result<Whole, ApiError> {
    if body.is_empty() {
        return Err(empty_body());
    }
    let form = form::read(body).ok_or_else(|| {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            ErrorType::InvalidRequest,
            "invalid_body",
            "The form has no field data. Put the JSON into it, or send JSON as application/json.",
        )
    })?;
    let hint = match &form.compression {
        Some(name) => named(Some(name))?,
        None => hint,
    };
    decode_data(core, &form.data, hint)
}

/// The value of `data`: JSON, base64 or LZString.
fn decode_data(core: &Core, data: &[u8], hint: Encoding) -> Result<Whole, ApiError> {
    let mut copy = core.buffers.take();
    copy.extend_from_slice(data);
    let encoding = form::encoding_of_data(data, hint);
    let json = step(core, encoding, Whole::Buffer(copy))?;
    if encoding == Encoding::Base64 {
        unwrap_magic(core, json)
    } else {
        Ok(json)
    }
}

/// Base64 may hold something compressed, which shows by its first bytes.
fn unwrap_magic(core: &Core, decoded: Whole) -> Result<Whole, ApiError> {
    let encoding = Encoding::of_magic(&decoded);
    step(core, encoding, decoded)
}

/// Takes one encoding off.
fn step(core: &Core, encoding: Encoding, sent: Whole) -> Result<Whole, ApiError> {
    let bytes_max = core.shared.config.limits.decoded_bytes_max;
    if encoding == Encoding::Identity && sent.len() <= bytes_max {
        return Ok(sent);
    }
    let mut out = core.buffers.take();
    core.decoder
        .borrow_mut()
        .decode(encoding, &sent, &mut out, bytes_max)?;
    sent.recycle(&core.buffers);
    Ok(Whole::Buffer(out))
}

fn content_encoding(call: &Call<'_>) -> Result<Encoding, ApiError> {
    if call.head.stacked() {
        return Err(unsupported("several"));
    }
    named(call.head.content_encoding.map(HeaderValue::as_bytes))
}

fn named(name: Option<&[u8]>) -> Result<Encoding, ApiError> {
    let Some(name) = name else {
        return Ok(Encoding::Identity);
    };
    Encoding::of_name(name).ok_or_else(|| unsupported(&String::from_utf8_lossy(name)))
}

/// 415.
fn unsupported(name: &str) -> ApiError {
    let name: Cow<'_, str> = name.chars().take(64).collect();
    ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorType::InvalidRequest,
        "unsupported_media_type",
        format!(
            "The encoding {name:?} is not taken. Use one of gzip, deflate, br, zstd, base64 or lz64."
        ),
    )
}

/// 400 for want of a payload.
fn empty_body() -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        ErrorType::InvalidRequest,
        "empty_body",
        "There is no payload. Send JSON in the body, or in ?data= with GET.",
    )
}
