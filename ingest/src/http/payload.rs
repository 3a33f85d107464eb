//! Payload of a request: admitted, read, queued and decoded.

use super::body::{declared, gather, overloaded};
use super::capture::refused;
use super::decode::{DecodedPayload, EncodedPayload, PayloadKind, decode};
use super::offload::OffloadSlot;
use super::query::Query;
use super::{RequestContext, Route};
use crate::budget::Share;
use crate::connection::Conn;
use crate::core::Core;
use crate::fair_queue::{Flow, Permit, REQUEST_BYTES};
use crate::metrics::Stage;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use hyper::body::Incoming;
use millrace_encoding::{
    BodyBuf, BodyDecoder, Boundary, Encoding, Hints, ON_CORE_BYTES_MAX, key_behind, keys_in,
};
use millrace_parse::{ApiError, KeyLookup};
use millrace_rows::Lane;

/// Bytes in which a body begins with its key, if it does: white space may take megabytes.
const BEGINNING_BYTES: usize = 1 << 10;
/// Bytes at either end of a large body in which its key is looked for.
const SEARCHED_BYTES: usize = 16 << 10;

/// Body as JSON, with what it holds until the request is answered.
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
    let boundary = boundary(request)?;
    let hints = Hints {
        content_encoding: content_encoding(request)?,
        compression: Encoding::named(query.compression.as_deref())?,
        form: request.head.form,
    };
    let flow = key.and_then(|key| known_flow(core, key.as_bytes()));
    admit(request, query, lane, flow, body)?;
    let mut share = core.shared.budget.share();
    let mut sent = BodyBuf::Frame(Bytes::new());
    if request.parts.method != Method::GET {
        let started = request.now();
        let check_beginning = |beginning: &[u8], bytes| {
            admit_to_queue(core, request.conn, lane, flow, beginning, bytes)
        };
        let is_known = |beginning: &[u8]| {
            let named = key.map(str::as_bytes).or_else(|| key_of(beginning));
            named.is_some_and(|key| is_known(core, key))
        };
        sent = gather(body, request, &mut share, check_beginning, is_known).await?;
        request.body_ended.set(true);
        request.took(Stage::Body, started);
    }
    let sent_bytes = sent.len();
    let cost = match &query.data {
        Some(data) if sent.is_empty() => data.len(),
        _ => sent_bytes,
    };
    // Once more: while this body came, others may have taken the capacity.
    let flow = admit_to_queue(core, request.conn, lane, flow, &sent, cost)?;
    let keeps_up = core.shared.deps.pipeline.keeps_up(lane);
    let permit = core
        .fair_queue
        .acquire(lane, flow, cost + REQUEST_BYTES, keeps_up)
        .await
        .ok_or_else(|| overloaded(core))?;
    let started = request.now();
    let sent = as_sent(core, query, sent, hints, boundary);
    let decoded = decode(request, sent, key, share).await?;
    let DecodedPayload {
        json,
        share,
        offload,
    } = decoded;
    request.took(Stage::Decode, started);
    core.metrics.body(sent_bytes, json.len());
    // A long body is checked for that where it is parsed.
    if json.len() <= ON_CORE_BYTES_MAX && is_blank(&json) {
        return Err(BodyDecoder::empty_body());
    }
    let offload = offload_for_parsing(request, key, &json, offload).await?;
    Ok(Payload {
        json,
        share,
        permit,
        offload,
    })
}

/// Takes a thread for a body that is too long to parse on a core, or gives back the one that
/// decoded it.
async fn offload_for_parsing(
    request: &RequestContext<'_>,
    key: Option<&str>,
    json: &[u8],
    offload: Option<OffloadSlot>,
) -> Result<Option<OffloadSlot>, ApiError> {
    if json.len() <= ON_CORE_BYTES_MAX {
        return Ok(None);
    }
    let is_known = names_known_project(request.core, key, json);
    let Some(mut offload) = offload else {
        return OffloadSlot::acquire(request, is_known).await.map(Some);
    };
    if is_known {
        offload.mark_project_known();
    }
    Ok(Some(offload))
}

/// Payload as it was sent, with how it is to be decoded.
fn as_sent(
    core: &Core,
    query: &Query<'_>,
    sent: BodyBuf,
    hints: Hints,
    boundary: Option<Boundary>,
) -> EncodedPayload {
    let (bytes, kind) = match (&query.data, boundary) {
        (_, Some(boundary)) => {
            let limits = &core.shared.config.limits;
            (
                sent,
                PayloadKind::parts(boundary, limits.parse.event_bytes_max),
            )
        }
        (Some(data), None) if sent.is_empty() => {
            let mut copy = core.buffers.take();
            copy.extend_from_slice(data);
            (BodyBuf::Buffer(copy), PayloadKind::Data)
        }
        _ => (sent, PayloadKind::Body),
    };
    EncodedPayload { bytes, kind, hints }
}

/// Admits a request before its body is read: a body that is refused later costs the reading, too. A
/// dry run needs no room in the log.
fn admit(
    request: &RequestContext<'_>,
    query: &Query<'_>,
    lane: Lane,
    flow: Option<Flow>,
    body: &Incoming,
) -> Result<(), ApiError> {
    let core = request.core;
    let shared = &core.shared;
    let declared = declared(body, &shared.config.limits)?;
    if !query.dry_run {
        let admitted = shared.deps.pipeline.admits(lane);
        admitted.map_err(|refusal| refused(core, refusal))?;
    }
    let shed = core.fair_queue.admit(lane, flow, declared + REQUEST_BYTES);
    if shed.is_err() || !shared.budget.has_capacity(declared) {
        return Err(overloaded(core));
    }
    Ok(())
}

/// Admits a body of so many bytes, which begins like this, to the fair queue; returns its flow.
pub fn admit_to_queue(
    core: &Core,
    conn: &Conn,
    lane: Lane,
    flow: Option<Flow>,
    beginning: &[u8],
    bytes: usize,
) -> Result<Flow, ApiError> {
    let flow = flow.or_else(|| known_flow(core, key_of(beginning)?));
    let flow = flow.unwrap_or_else(|| conn.flow());
    let cost = bytes + REQUEST_BYTES;
    let admitted = core.fair_queue.admit(lane, Some(flow), cost);
    admitted.map_err(|_| overloaded(core))?;
    Ok(flow)
}

/// Flow of a project by its key. While projects compete only known keys count, so that no project
/// gets more turns by more keys.
fn known_flow(core: &Core, key: &[u8]) -> Option<Flow> {
    let is_believed = !core.fair_queue.is_contended() || is_known(core, key);
    is_believed.then(|| Flow::of_key(key))
}

/// Returns true if a key is a project's, as far as that is known without asking.
fn is_known(core: &Core, key: &[u8]) -> bool {
    std::str::from_utf8(key).is_ok_and(|key| {
        let lookup = core.shared.deps.keys.cached(key);
        matches!(lookup, KeyLookup::Found(_))
    })
}

/// Returns true if a body is empty but for white space.
pub fn is_blank(json: &[u8]) -> bool {
    json.iter().all(u8::is_ascii_whitespace)
}

/// Returns true if a large body names a known project's key where most do, or its head does.
fn names_known_project(core: &Core, key: Option<&str>, json: &[u8]) -> bool {
    let end = json.len().saturating_sub(SEARCHED_BYTES);
    let ends = [json.get(..SEARCHED_BYTES), json.get(end..)];
    let keys = ends.into_iter().flatten().flat_map(|text| {
        let keys = keys_in(Encoding::Identity, text, SEARCHED_BYTES);
        keys.into_iter()
    });
    let mut keys = keys.chain(key.map(str::to_owned));
    keys.any(|key| matches!(core.shared.deps.keys.cached(&key), KeyLookup::Found(_)))
}

/// Key that a body begins with, as most do. A body that begins with the key of another project
/// takes turns with that project.
fn key_of(body: &[u8]) -> Option<&[u8]> {
    let body = body.get(..BEGINNING_BYTES).unwrap_or(body);
    let rest = body.trim_ascii_start().strip_prefix(b"{")?;
    let rest = rest.trim_ascii_start().strip_prefix(b"\"")?;
    let (name, rest) = rest.split_at_checked(memchr::memchr(b'"', rest.get(..16)?)?)?;
    if !matches!(name, b"api_key" | b"token") {
        return None;
    }
    key_behind(rest.strip_prefix(b"\"")?)
}

/// Boundary of a body in parts.
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
    fn the_key_at_the_beginning_of_a_body_is_found() {
        let table = [
            (r#"{"api_key":"phc_a","batch":[]}"#, Some("phc_a")),
            (" {\n \"token\" : \"phc_b\" , \"event\":1}", Some("phc_b")),
            (r#"{"batch":[],"api_key":"phc_a"}"#, None),
            (r#"[{"api_key":"phc_a"}]"#, None),
            (r#"{"api_key":1234567890123}"#, None),
            (r#"{"api_key":"","batch":[]}"#, None),
            (r#"{"api_key":"phc_a"#, None),
            ("", None),
        ];
        for (body, key) in table {
            assert_eq!(key_of(body.as_bytes()), key.map(str::as_bytes), "{body}");
        }
    }
}
