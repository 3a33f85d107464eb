//! Reading what was sent, when it is this request's turn.

use super::beside::Beside;
use super::body::{declared, gather, overloaded};
use super::capture::refused;
use super::decode::{Decoded, Sent, Shape, decode};
use super::query::Query;
use super::{Call, Route};
use crate::budget::Share;
use crate::core::Core;
use crate::edge::Conn;
use crate::metrics::Stage;
use crate::turns::{Flow, REQUEST_BYTES, Turn};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use hyper::body::Incoming;
use millrace_encoding::{
    Boundary, Encoding, Hints, ON_CORE_BYTES_MAX, Unwrapper, Whole, key_behind, keys_in,
};
use millrace_parse::{ApiError, KeyLookup};
use millrace_rows::Lane;

/// Bytes in which a body begins with its key, if it does: it may have megabytes of white space.
const BEGINNING_BYTES: usize = 1 << 10;
/// Bytes at either end of a large body in which its key is looked for.
const SEARCHED_BYTES: usize = 16 << 10;

/// A body as JSON, and what it holds until the request is answered.
pub struct Payload {
    /// The JSON text, not yet looked at.
    pub json: Whole,
    /// The memory it is accounted for.
    pub share: Share,
    /// Its turn on the core.
    pub turn: Turn,
    /// The thread on which it is parsed, if that is too long for a core.
    pub beside: Option<Beside>,
}

/// Reads and decodes the body, or a GET's `data`, when it is this request's turn. `key` is the
/// project's where the head names it.
pub async fn read(
    call: &Call<'_>,
    query: &Query<'_>,
    lane: Lane,
    key: Option<&str>,
    body: &mut Incoming,
) -> Result<Payload, ApiError> {
    let core = call.core;
    let boundary = boundary(call)?;
    let hints = Hints {
        content_encoding: content_encoding(call)?,
        compression: Encoding::named(query.compression.as_deref())?,
        form: call.head.form,
    };
    let flow = key.and_then(|key| known_flow(core, key.as_bytes()));
    admit(call, query, lane, flow, body)?;
    let mut share = core.shared.budget.share();
    let mut sent = Whole::Frame(Bytes::new());
    if call.parts.method != Method::GET {
        let started = call.now();
        let judge =
            |beginning: &[u8], bytes| admit_to_queue(core, call.conn, lane, flow, beginning, bytes);
        let is_known = |beginning: &[u8]| {
            let named = key.map(str::as_bytes).or_else(|| key_of(beginning));
            named.is_some_and(|key| is_known(core, key))
        };
        sent = gather(body, call, &mut share, judge, is_known).await?;
        call.body_ended.set(true);
        call.took(Stage::Body, started);
    }
    let sent_bytes = sent.len();
    let cost = match &query.data {
        Some(data) if sent.is_empty() => data.len(),
        _ => sent_bytes,
    };
    // Once more: while this body came, others may have taken the room.
    let flow = admit_to_queue(core, call.conn, lane, flow, &sent, cost)?;
    let keeps_up = core.shared.deps.pipeline.keeps_up(lane);
    let turn = core
        .turns
        .wait(lane, flow, cost + REQUEST_BYTES, keeps_up)
        .await
        .ok_or_else(|| overloaded(core))?;
    let started = call.now();
    let sent = as_sent(core, query, sent, hints, boundary);
    let decoded = decode(call, sent, key, share).await?;
    let Decoded {
        json,
        share,
        beside,
    } = decoded;
    call.took(Stage::Decode, started);
    core.metrics.body(sent_bytes, json.len());
    // Of what is long that is seen where it is parsed.
    if json.len() <= ON_CORE_BYTES_MAX && is_blank(&json) {
        return Err(Unwrapper::empty_body());
    }
    let beside = parsed_beside(call, key, &json, beside).await?;
    Ok(Payload {
        json,
        share,
        turn,
        beside,
    })
}

/// Takes a thread for a body that is too long to parse on a core, or gives back the one that decoded it.
async fn parsed_beside(
    call: &Call<'_>,
    key: Option<&str>,
    json: &[u8],
    beside: Option<Beside>,
) -> Result<Option<Beside>, ApiError> {
    if json.len() <= ON_CORE_BYTES_MAX {
        return Ok(None);
    }
    let is_known = is_of_known_project(call.core, key, json);
    let Some(mut beside) = beside else {
        return Beside::enter(call, is_known).await.map(Some);
    };
    if is_known {
        beside.is_of_known_project();
    }
    Ok(Some(beside))
}

/// What was sent, with how it is to be taken apart.
fn as_sent(
    core: &Core,
    query: &Query<'_>,
    sent: Whole,
    hints: Hints,
    boundary: Option<Boundary>,
) -> Sent {
    let (bytes, shape) = match (&query.data, boundary) {
        (_, Some(boundary)) => {
            let limits = &core.shared.config.limits;
            (sent, Shape::parts(boundary, limits.parse.event_bytes_max))
        }
        (Some(data), None) if sent.is_empty() => {
            let mut copy = core.buffers.take();
            copy.extend_from_slice(data);
            (Whole::Buffer(copy), Shape::Data)
        }
        _ => (sent, Shape::Body),
    };
    Sent {
        bytes,
        shape,
        hints,
    }
}

/// Whether the body is worth reading: what is refused later costs the reading, too. Who only asks what
/// would become of a body needs no room in the log.
fn admit(
    call: &Call<'_>,
    query: &Query<'_>,
    lane: Lane,
    flow: Option<Flow>,
    body: &Incoming,
) -> Result<(), ApiError> {
    let core = call.core;
    let shared = &core.shared;
    let declared = declared(body, &shared.config.limits)?;
    if !query.dry_run {
        let admitted = shared.deps.pipeline.admits(lane);
        admitted.map_err(|refusal| refused(core, refusal))?;
    }
    let shed = core.turns.admit(lane, flow, declared + REQUEST_BYTES);
    if shed.is_err() || !shared.budget.has_room(declared) {
        return Err(overloaded(core));
    }
    Ok(())
}

/// Whether a body of so many bytes that begins like this may queue up, and as whose.
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
    let admitted = core.turns.admit(lane, Some(flow), cost);
    admitted.map_err(|_| overloaded(core))?;
    Ok(flow)
}

/// The flow of a project by its key. While projects compete only keys that are known count, so that
/// nobody gets more turns by more keys.
fn known_flow(core: &Core, key: &[u8]) -> Option<Flow> {
    let is_believed = !core.turns.is_contended() || is_known(core, key);
    is_believed.then(|| Flow::of_key(key))
}

/// Whether a key is a project's, as far as that is known without asking.
fn is_known(core: &Core, key: &[u8]) -> bool {
    std::str::from_utf8(key).is_ok_and(|key| {
        let lookup = core.shared.deps.keys.cached(key);
        matches!(lookup, KeyLookup::Found(_))
    })
}

/// Whether nothing is there.
pub fn is_blank(json: &[u8]) -> bool {
    json.iter().all(u8::is_ascii_whitespace)
}

/// Whether a large body names a project's key where most do, or its head does.
fn is_of_known_project(core: &Core, key: Option<&str>, json: &[u8]) -> bool {
    let end = json.len().saturating_sub(SEARCHED_BYTES);
    let ends = [json.get(..SEARCHED_BYTES), json.get(end..)];
    let keys = ends.into_iter().flatten().flat_map(|text| {
        let keys = keys_in(Encoding::Identity, text, SEARCHED_BYTES);
        keys.into_iter()
    });
    let mut keys = keys.chain(key.map(str::to_owned));
    keys.any(|key| matches!(core.shared.deps.keys.cached(&key), KeyLookup::Found(_)))
}

/// Whose a body is, if it begins with its project's key, as most do. Who has it begin with
/// another's takes turns with that project.
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

/// Of a body in parts.
fn boundary(call: &Call<'_>) -> Result<Option<Boundary>, ApiError> {
    if call.route != Route::Ai {
        return Ok(None);
    }
    let content_type = call.parts.headers.get(CONTENT_TYPE);
    Boundary::of(content_type.map(HeaderValue::as_bytes)).map(Some)
}

fn content_encoding(call: &Call<'_>) -> Result<Encoding, ApiError> {
    if call.head.stacked() {
        return Err(Encoding::unsupported("several"));
    }
    Encoding::named(call.head.content_encoding.map(HeaderValue::as_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_begins_with_a_key_is_its_projects() {
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
