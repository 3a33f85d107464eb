//! From what was sent to the JSON that was meant.

use super::Call;
use super::body::{gather, overloaded};
use super::query::Query;
use crate::budget::Share;
use crate::metrics::Stage;
use bytes::Bytes;
use http::{HeaderValue, Method};
use hyper::body::Incoming;
use millrace_encoding::{Encoding, Hints, Unwrapper, Whole};
use millrace_parse::ApiError;

/// A body as JSON, and the memory it is accounted for.
pub struct Payload {
    /// The JSON text, not yet looked at.
    pub json: Whole,
    /// Held until the request is answered.
    pub share: Share,
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
        compression: Encoding::named(query.compression.as_deref())?,
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
    let unwrapper = Unwrapper {
        buffers: &core.buffers,
        decoder: &core.decoder,
        bytes_max: core.shared.config.limits.decoded_bytes_max,
    };
    let json = match &query.data {
        Some(data) if sent.is_empty() => unwrapper.data(data, hints.compression)?,
        _ => unwrapper.body(sent, hints)?,
    };
    call.took(Stage::Decode, started);
    core.metrics.body(sent_bytes, json.len());
    if json.iter().all(u8::is_ascii_whitespace) {
        return Err(Unwrapper::empty_body());
    }
    if !share.grow_to(sent_bytes.max(json.len())) {
        return Err(overloaded());
    }
    Ok(Payload { json, share })
}

fn content_encoding(call: &Call<'_>) -> Result<Encoding, ApiError> {
    if call.head.stacked() {
        return Err(Encoding::unsupported("several"));
    }
    Encoding::named(call.head.content_encoding.map(HeaderValue::as_bytes))
}
