//! Payload of a request: from its head to JSON text that is ready to be parsed.
//!
//! | Step | Reason for its place |
//! |---|---|
//! | [`PayloadFormat::of`] | reads the head; a format that is not known needs no body |
//! | `check_before_body` | a body that is rejected later costs the reading, too |
//! | [`receive`] | reads the body in steps, each of which the budget has to allow |
//! | [`take_turn`] | from here on the request costs the core something, so projects take turns |
//! | [`decode`] | decompresses; large bodies do so on a thread beside the core |
//! | [`offload_for_parsing`] | JSON that is long is parsed on such a thread as well |
//!
//! The project is certain only once the body is parsed. Until then it goes by hints: the key in the
//! head, the key that the body begins with, or the connection's last request.

use super::body::{declared_bytes, gather, is_blank};
use super::context::RequestContext;
use super::decode::{DecodedPayload, EncodedPayload, PayloadKind, decode, known_flow};
use crate::admission::budget::Share;
use crate::admission::fair_queue::{Cost, Permit};
use crate::admission::project_hint::{is_known, key_at_start, keys_of_large_body};
use crate::core::Core;
use crate::metrics::Stage;
use crate::offload::{OffloadSlot, OffloadWork};
use crate::request::query::Query;
use crate::request::route::Route;
use crate::scheduling::flow::Flow;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use hyper::body::Incoming;
use millrace_encoding::{BodyBuf, BodyDecoder, Boundary, Encoding, Hints, ON_CORE_BYTES_MAX};
use millrace_parse::ApiError;
use millrace_rows::Lane;

/// Objects of a body that a core parses itself: any may be an event, which takes a microsecond
/// however short it is. Ordinary events have two and more, and hundreds of bytes.
const ON_CORE_OBJECTS_MAX: usize = 8 << 10;
/// Bytes of a body whose objects are not counted: even the shortest events take less than 10 ms.
const UNCOUNTED_BYTES_MAX: usize = 64 << 10;

/// JSON text of a request, with all that it holds until the request is answered.
pub struct Payload {
    /// JSON text, not yet parsed.
    pub json: BodyBuf,
    /// Memory that it is accounted for.
    pub share: Share,
    /// Permit of the fair queue.
    pub permit: Permit,
    /// Thread on which it is parsed, if that takes too long for a core.
    pub offload: Option<OffloadSlot>,
}

/// Lane and project of a request, as far as its head names them.
#[derive(Clone, Copy)]
struct HeadHint<'a> {
    lane: Lane,
    /// Key that the head names.
    key: Option<&'a str>,
    /// Flow of that key.
    flow: Option<Flow>,
}

/// Format in which a payload was sent, as the head names it.
struct PayloadFormat {
    hints: Hints,
    /// Boundary of a body in parts.
    boundary: Option<Boundary>,
}

/// Reads and decodes the body, or a GET's `data`, once the fair queue permits it. `key` is the
/// project's where the head names it.
pub async fn read(
    request: &RequestContext<'_>,
    query: &Query<'_>,
    lane: Lane,
    key: Option<&str>,
    body: &mut Incoming,
) -> Result<Payload, ApiError> {
    let core = request.core;
    let admission = &core.admission;
    let format = PayloadFormat::of(request, query)?;
    let flow = key.and_then(|key| admission.known_flow(key.as_bytes()));
    let hint = HeadHint { lane, key, flow };
    let declared = declared_bytes(body, admission)?;
    admission.check_before_body(lane, flow, declared, query.dry_run)?;

    let mut share = admission.share();
    let sent = if request.parts.method == Method::GET {
        // Its payload is in the query.
        BodyBuf::Frame(Bytes::new())
    } else {
        receive(request, hint, body, &mut share).await?
    };
    let sent_bytes = sent.len();
    let permit = take_turn(request, query, hint, &format, &sent).await?;

    let started = request.now();
    let encoded = format.encoded(core, query, sent);
    let decoded = decode(request, encoded, lane, key, share).await?;
    let DecodedPayload {
        json,
        share,
        offload,
    } = decoded;
    permit.note_decoded(json.len());
    request.took(Stage::Decode, started);
    core.metrics.body(sent_bytes, json.len());
    // A long body is checked for that where it is parsed, as that takes long, too.
    if json.len() <= ON_CORE_BYTES_MAX && is_blank(&json) {
        return Err(BodyDecoder::empty_body());
    }
    let offload = offload_for_parsing(request, hint, &json, offload).await?;
    Ok(Payload {
        json,
        share,
        permit,
        offload,
    })
}

/// Reads the body. A request that the fair queue has no capacity for is rejected at the body's
/// first bytes, which name its project if the head does not.
async fn receive(
    request: &RequestContext<'_>,
    hint: HeadHint<'_>,
    body: &mut Incoming,
    share: &mut Share,
) -> Result<BodyBuf, ApiError> {
    let core = request.core;
    let started = request.now();
    let check_beginning = |beginning: &[u8], bytes| {
        let last_flow = request.conn.flow();
        core.admission
            .check_queue(hint.lane, hint.flow, last_flow, beginning, bytes)
    };
    let names_known = |beginning: &[u8]| {
        let named = hint.key.map(str::as_bytes);
        let named = named.or_else(|| key_at_start(beginning));
        named.is_some_and(|key| is_known(&core.process.deps.keys, key))
    };
    let sent = gather(body, request, share, check_beginning, names_known).await?;
    request.body_ended.set(true);
    request.took(Stage::Body, started);
    Ok(sent)
}

/// Waits until it is the turn of the request's project.
async fn take_turn(
    request: &RequestContext<'_>,
    query: &Query<'_>,
    hint: HeadHint<'_>,
    format: &PayloadFormat,
    sent: &BodyBuf,
) -> Result<Permit, ApiError> {
    let admission = &request.core.admission;
    // Base64 in a query is told from JSON where it is decoded.
    let (payload, is_data): (&[u8], _) = match &query.data {
        Some(data) if sent.is_empty() => (data, true),
        _ => (sent, false),
    };
    // Checked once more: while this body came, others may have taken the capacity.
    let last_flow = request.conn.flow();
    let bytes = payload.len();
    let flow = admission.check_queue(hint.lane, hint.flow, last_flow, sent, bytes)?;
    let cost = match is_data || format.may_be_encoded(payload) {
        true => Cost::encoded(bytes, format.hints.on_core_bytes_max(bytes)),
        false => Cost::plain(bytes),
    };
    admission.take_turn(hint.lane, flow, cost).await
}

/// Takes a thread for a body that is too long to parse on a core, or gives back the one that
/// decoded it.
async fn offload_for_parsing(
    request: &RequestContext<'_>,
    hint: HeadHint<'_>,
    json: &[u8],
    decoded_on: Option<OffloadSlot>,
) -> Result<Option<OffloadSlot>, ApiError> {
    if !takes_long(json) {
        return Ok(None);
    }
    let named = keys_of_large_body(hint.key, json);
    let Some(mut offload) = decoded_on else {
        // The catalog is asked if need be: the key of a project that sends one such body a minute
        // is not in the cache. Errors are the parser's to report.
        request.release_epoch();
        let flow = known_flow(request.core, &named).await;
        let flow = flow.unwrap_or(Flow::UNKNOWN);
        let work = OffloadWork {
            lane: hint.lane,
            flow,
            bytes: json.len(),
        };
        return request.acquire_offload(work).await.map(Some);
    };
    // The catalog is not asked, as this one holds a thread.
    let keys = &request.core.process.deps.keys;
    if named.iter().any(|key| is_known(keys, key.as_bytes())) {
        offload.mark_project_known();
    }
    Ok(Some(offload))
}

/// Returns true if a body takes a core too long to parse: it is long, or has many objects, of which
/// any may be an event.
fn takes_long(json: &[u8]) -> bool {
    let objects = || memchr::memchr_iter(b'{', json).count();
    json.len() > ON_CORE_BYTES_MAX
        || (json.len() > UNCOUNTED_BYTES_MAX && objects() > ON_CORE_OBJECTS_MAX)
}

// === impl PayloadFormat ===

impl PayloadFormat {
    /// Reads the format from the head.
    fn of(request: &RequestContext<'_>, query: &Query<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            boundary: boundary(request)?,
            hints: Hints {
                content_encoding: content_encoding(request)?,
                compression: Encoding::named(query.compression.as_deref())?,
                form: request.head.form,
            },
        })
    }

    fn may_be_encoded(&self, sent: &[u8]) -> bool {
        self.boundary.is_some() || self.hints.may_be_encoded(sent)
    }

    /// Payload in this format: the body, or the query's `data` if there is none.
    fn encoded(self, core: &Core, query: &Query<'_>, sent: BodyBuf) -> EncodedPayload {
        let (bytes, kind) = match (&query.data, self.boundary) {
            (_, Some(boundary)) => {
                let event_bytes_max = core.admission.limits().parse.event_bytes_max;
                (sent, PayloadKind::parts(boundary, event_bytes_max))
            }
            (Some(data), None) if sent.is_empty() => {
                let mut copy = core.buffers.take();
                copy.extend_from_slice(data);
                (BodyBuf::Buffer(copy), PayloadKind::Data)
            }
            _ => (sent, PayloadKind::Body),
        };
        EncodedPayload {
            bytes,
            kind,
            hints: self.hints,
        }
    }
}

/// Boundary of a body in parts, which only one path takes.
fn boundary(request: &RequestContext<'_>) -> Result<Option<Boundary>, ApiError> {
    if request.route != Route::Ai {
        return Ok(None);
    }
    let content_type = request.parts.headers.get(CONTENT_TYPE);
    Boundary::of(content_type.map(HeaderValue::as_bytes)).map(Some)
}

fn content_encoding(request: &RequestContext<'_>) -> Result<Encoding, ApiError> {
    if request.head.stacked() {
        return Err(Encoding::unsupported("several"));
    }
    Encoding::named(request.head.content_encoding.map(HeaderValue::as_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_parsed_on_the_core_unless_it_is_long_or_has_many_objects() {
        for (bytes, objects, expected) in [
            (512 << 10, 8_192, false),
            ((512 << 10) + 1, 0, true),
            // A short one is parsed there, whatever is in it.
            (64 << 10, 64 << 10, false),
            ((64 << 10) + 1, 8_192, false),
            ((64 << 10) + 1, 8_193, true),
        ] {
            let mut json = vec![b'{'; objects];
            json.resize(bytes, b' ');
            assert_eq!(takes_long(&json), expected, "{bytes} {objects}");
        }
    }
}
