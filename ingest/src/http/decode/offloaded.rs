//! Decodes a body beside the cores: one that is too large for a core, or for one whose key is not
//! known.

use super::encoded_payload::{DecodedPayload, EncodedPayload, PayloadKind, is_known};
use crate::admission::budget::Share;
use crate::admission::rejection::Rejection;
use crate::core::Core;
use crate::http::context::RequestContext;
use crate::http::parse::LOOKUPS_MAX;
use crate::offload::{OffloadFailed, OffloadSlot, OffloadWork};
use crate::scheduling::flow::Flow;
use millrace_encoding::{
    BodyBuf, BodyDecodeError, Buffers, DecodeLimits, Encoded, Encoding, Expansion, keys_in,
};
use millrace_parse::ApiError;
use millrace_rows::Lane;
use std::cell::RefCell;

/// State of an attempt to decode that did not suffice.
pub(super) struct DecodeAttempt {
    pub(super) limits: DecodeLimits,
    /// Lane of the request, as far as its head names it.
    pub(super) lane: Lane,
    /// Flow of the body, by the known key that it names.
    pub(super) flow: Flow,
    pub(super) encoded: Option<Encoded>,
    /// Encoding of what was too large.
    pub(super) encoding: Encoding,
}

impl DecodeAttempt {
    /// Limits of the next attempt.
    fn next_limits(&self, sent: &EncodedPayload, expansion: &Expansion) -> DecodeLimits {
        let limits = expansion.limits(self.flow.is_known());
        sent.next_limits(expansion, self.limits, limits)
    }

    /// Work of the next attempt: all that the body may decode to in it, as it gets as much memory.
    fn next_work(&self, sent: &EncodedPayload, expansion: &Expansion) -> OffloadWork {
        let decoded_bytes_max = sent.memory_max(self.next_limits(sent, expansion));
        OffloadWork {
            lane: self.lane,
            flow: self.flow,
            bytes: decoded_bytes_max.max(sent.bytes.len()),
        }
    }
}

/// Decodes a body that is too large for a core, or for one whose key is not known.
#[cold]
pub(super) async fn decode_offloaded(
    request: &RequestContext<'_>,
    mut sent: EncodedPayload,
    key: Option<&str>,
    mut share: Share,
    expansion: Expansion,
    mut tried: DecodeAttempt,
) -> Result<DecodedPayload, ApiError> {
    let core = request.core;
    let keys = keys_so_far(key, &mut tried, &sent);
    tried.flow = known_flow(core, &keys).await?;
    let work = tried.next_work(&sent, &expansion);
    let mut offload = request.acquire_offload(work).await?;
    let mut is_searched = false;
    loop {
        if let Some(encoded) = tried.encoded.take() {
            tried.encoding = encoded.encoding;
            if key.is_none() && !tried.flow.is_known() {
                tried.flow = known_flow(core, &encoded.keys).await?;
            }
            let is_found = key.is_some() || tried.flow.is_known();
            if let Some(bytes_max) = expansion.searched_bytes_max(encoded.encoding)
                && bytes_max > tried.limits.of(encoded.encoding)
                && !is_found
                && !is_searched
            {
                is_searched = true;
                let keys;
                (offload, sent, share, keys) =
                    search(core, offload, (sent, share), encoded, bytes_max).await?;
                tried.flow = known_flow(core, &keys).await?;
            }
        }
        if tried.flow.is_known() {
            offload.mark_project_known();
            share.mark_project_known();
        }
        refuse_larger(core, &sent, &expansion, &tried)?;
        let limits = tried.next_limits(&sent, &expansion);
        let grown = offload.grow_to(tried.next_work(&sent, &expansion)).await;
        offload = grown.map_err(|OffloadFailed| core.admission.overloaded())?;
        let json;
        (offload, sent, share, json) = json_of(core, offload, (sent, share), limits, key).await?;
        match json {
            Ok(json) => {
                return Ok(DecodedPayload {
                    json: sent.replaced(json, &core.buffers),
                    share,
                    offload: Some(offload),
                });
            }
            Err(BodyDecodeError::Refused(error)) => return Err(error),
            Err(BodyDecodeError::TooLarge(encoded)) => {
                tried.limits = limits;
                tried.encoded = Some(encoded);
            }
        }
    }
}

/// JSON of a payload, if there is any beside what was sent.
type Json = Result<Option<BodyBuf>, BodyDecodeError>;

/// Decodes a body within these limits; `key` is its project's where the head names it.
async fn json_of(
    core: &Core,
    offload: OffloadSlot,
    (sent, mut share): (EncodedPayload, Share),
    limits: DecodeLimits,
    key: Option<&str>,
) -> Result<(OffloadSlot, EncodedPayload, Share, Json), ApiError> {
    let failed = |OffloadFailed| core.admission.overloaded();
    let key = key.map(str::to_owned);
    // For all that it may decode to here, until its share has what it did decode to.
    let memory = offload.reserve_memory_at_most(sent.memory_max(limits));
    let memory = memory.await.map_err(failed)?;
    let work = move || {
        let (buffers, decoder) = (Buffers::default(), RefCell::default());
        let json = sent.json(&buffers, &decoder, limits, key.as_deref());
        let decoded = json.as_ref().ok().and_then(Option::as_ref);
        let decoded_bytes = decoded.map_or(0, |json| json.len());
        let has_capacity = share.grow_to(sent.bytes.len().max(decoded_bytes));
        drop(memory);
        (sent, json, share, has_capacity)
    };
    let (offload, (sent, json, share, has_capacity)) = offload.run(work).await.map_err(failed)?;
    match has_capacity {
        true => Ok((offload, sent, share, json)),
        false => Err(core.admission.overloaded()),
    }
}

/// Keys that the head or the beginning of the body names.
fn keys_so_far(key: Option<&str>, tried: &mut DecodeAttempt, sent: &EncodedPayload) -> Vec<String> {
    match (key, &mut tried.encoded) {
        (Some(key), _) => vec![key.to_owned()],
        (None, Some(encoded)) => std::mem::take(&mut encoded.keys),
        (None, None) => sent.keys_at_its_beginning(),
    }
}

/// Refuses a body that was too large for the limits there are.
fn refuse_larger(
    core: &Core,
    sent: &EncodedPayload,
    expansion: &Expansion,
    tried: &DecodeAttempt,
) -> Result<(), ApiError> {
    let is_key_known = tried.flow.is_known();
    let bytes_max = expansion.limits(is_key_known).of(tried.encoding);
    let parts_max = match &sent.kind {
        PayloadKind::Parts { bytes_max, .. } => *bytes_max,
        _ => usize::MAX,
    };
    if tried.limits.of(tried.encoding) < bytes_max.min(parts_max) {
        return Ok(());
    }
    Err(if parts_max < bytes_max {
        event_too_large(core.admission.limits().parse.event_bytes_max)
    } else {
        expansion.refusal(tried.encoding, is_key_known)
    })
}

/// Searches for keys further on in a body that was too large.
async fn search(
    core: &Core,
    offload: OffloadSlot,
    (sent, mut share): (EncodedPayload, Share),
    encoded: Encoded,
    bytes_max: usize,
) -> Result<(OffloadSlot, EncodedPayload, Share, Vec<String>), ApiError> {
    let work = move || {
        let has_capacity = share.grow_to(sent.bytes.len().max(bytes_max));
        let bytes = encoded.inner.as_deref().unwrap_or(&sent.bytes);
        let keys = has_capacity.then(|| keys_in(encoded.encoding, bytes, bytes_max));
        (sent, share, keys)
    };
    let searched = offload.run(work).await;
    let (offload, (sent, share, keys)) =
        searched.map_err(|OffloadFailed| core.admission.overloaded())?;
    let keys = keys.ok_or_else(|| core.admission.overloaded())?;
    Ok((offload, sent, share, keys))
}

/// Flow of the first of these that is a project's key. Cached keys are asked first, as that works
/// without the catalog, too.
///
/// # Errors
///
/// 503 if the catalog was asked and did not answer.
pub async fn known_flow(core: &Core, keys: &[String]) -> Result<Flow, ApiError> {
    let known = &core.process.deps.keys;
    if let Some(key) = keys.iter().find(|key| is_known(known.cached(key))) {
        return Ok(Flow::of_key(key.as_bytes()));
    }
    for key in keys.iter().take(LOOKUPS_MAX) {
        let found = known.find(key).await;
        if found
            .map_err(|_| core.admission.error(Rejection::KeyLookupFailed))?
            .is_some()
        {
            return Ok(Flow::of_key(key.as_bytes()));
        }
    }
    Ok(Flow::UNKNOWN)
}

/// Builds a 400 for an event in parts, as for every event that is too large.
fn event_too_large(event_bytes_max: usize) -> ApiError {
    ApiError::invalid(
        "event_too_large",
        format!(
            "The event is, with all its parts, larger than the {event_bytes_max} bytes that one \
             event may have. Send less with it."
        ),
    )
}
