//! Decodes a body as it was sent to JSON.

use super::context::RequestContext;
use super::parse::LOOKUPS_MAX;
use crate::admission::budget::Share;
use crate::admission::rejections::Rejection;
use crate::core::Core;
use crate::offload::{ON_CORE_SENT_BYTES_MAX, OffloadFailed, OffloadSlot};
use millrace_encoding::{
    BodyBuf, BodyDecodeError, BodyDecoder, Boundary, Buffers, DecodeLimits, Decoder, Encoded,
    Encoding, Expansion, Hints, keys_at_beginning, keys_in, said_bytes,
};
use millrace_parse::{ApiError, KeyLookup};
use std::cell::RefCell;

/// Factor by which an event in parts may be larger than the largest event: past that it is refused
/// as a whole, and not kept with the rejected ones, so that no mistake costs as much as a batch.
const PARTS_PER_EVENT_MAX: usize = 4;

/// Payload as it was sent, and how it is decoded.
pub struct EncodedPayload {
    pub bytes: BodyBuf,
    pub kind: PayloadKind,
    pub hints: Hints,
}

/// Kind of a payload.
pub enum PayloadKind {
    /// Body of a request.
    Body,
    /// Query parameter `data`.
    Data,
    /// Event in parts of so many bytes, at most.
    Parts {
        boundary: Boundary,
        bytes_max: usize,
    },
}

impl PayloadKind {
    /// Kind of an event in parts, where the largest event has so many bytes.
    pub const fn parts(boundary: Boundary, event_bytes_max: usize) -> Self {
        Self::Parts {
            boundary,
            bytes_max: event_bytes_max * PARTS_PER_EVENT_MAX,
        }
    }
}

/// Payload after decoding.
pub struct DecodedPayload {
    pub json: BodyBuf,
    /// Memory that it is accounted for.
    pub share: Share,
    /// Thread on which it was decoded, if that was not the core's.
    pub offload: Option<OffloadSlot>,
}

/// Decodes a payload; `key` is its project's where the head names it.
pub async fn decode(
    request: &RequestContext<'_>,
    sent: EncodedPayload,
    key: Option<&str>,
    mut share: Share,
) -> Result<DecodedPayload, ApiError> {
    let core = request.core;
    let sent_bytes = sent.bytes.len();
    let decoded_bytes_max = core.process.config.limits.decoded_bytes_max;
    let expansion = Expansion::of(sent_bytes, decoded_bytes_max);
    let mut tried = Tried {
        limits: DecodeLimits::of_all(0),
        is_key_known: false,
        encoded: None,
        encoding: Encoding::Identity,
    };
    let is_short = sent_bytes <= ON_CORE_SENT_BYTES_MAX && !sent.hints.may_take_long(sent_bytes);
    if is_short || !sent.hints.may_be_encoded(&sent.bytes) {
        tried.is_key_known = key.is_some_and(|key| is_known(core.process.deps.keys.cached(key)));
        if tried.is_key_known {
            share.mark_project_known();
        }
        let limits = expansion.limits(tried.is_key_known);
        tried.limits = limits.on_core(sent_bytes);
        match sent.json(&core.buffers, &core.decoder, tried.limits, key) {
            Ok(json) => {
                let json = sent.replaced(json, &core.buffers);
                if !share.grow_to(sent_bytes.max(json.len())) {
                    return Err(core.admission.overloaded());
                }
                return Ok(DecodedPayload {
                    json,
                    share,
                    offload: None,
                });
            }
            Err(BodyDecodeError::Refused(error)) => return Err(error),
            Err(BodyDecodeError::TooLarge(encoded)) => tried.encoded = Some(encoded),
        }
    }
    // Boxed, as few requests come here and all would carry its size.
    Box::pin(decode_offloaded(
        request, sent, key, share, expansion, tried,
    ))
    .await
}

/// State of an attempt to decode that did not suffice.
struct Tried {
    limits: DecodeLimits,
    is_key_known: bool,
    encoded: Option<Encoded>,
    /// Encoding of what was too large.
    encoding: Encoding,
}

/// Decodes a body that is too large for a core, or for one whose key is not known.
#[cold]
async fn decode_offloaded(
    request: &RequestContext<'_>,
    mut sent: EncodedPayload,
    key: Option<&str>,
    mut share: Share,
    expansion: Expansion,
    mut tried: Tried,
) -> Result<DecodedPayload, ApiError> {
    let core = request.core;
    let keys = keys_so_far(key, &mut tried, &sent);
    tried.is_key_known = is_any_known(core, &keys).await?;
    let mut offload = request.acquire_offload(tried.is_key_known).await?;
    let mut is_searched = false;
    loop {
        if let Some(encoded) = tried.encoded.take() {
            tried.encoding = encoded.encoding;
            if key.is_none() && !tried.is_key_known {
                tried.is_key_known = is_any_known(core, &encoded.keys).await?;
            }
            let is_found = key.is_some() || tried.is_key_known;
            if let Some(bytes_max) = expansion.searched_bytes_max(encoded.encoding)
                && bytes_max > tried.limits.of(encoded.encoding)
                && !is_found
                && !is_searched
            {
                is_searched = true;
                let keys;
                (offload, sent, share, keys) =
                    search(core, offload, (sent, share), encoded, bytes_max).await?;
                tried.is_key_known = is_any_known(core, &keys).await?;
            }
        }
        if tried.is_key_known {
            offload.mark_project_known();
            share.mark_project_known();
        }
        let limits = expansion.limits(tried.is_key_known);
        refuse_larger(&sent, &expansion, &tried, limits)?;
        let limits = sent.next_limits(&expansion, tried.limits, limits);
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
fn keys_so_far(key: Option<&str>, tried: &mut Tried, sent: &EncodedPayload) -> Vec<String> {
    match (key, &mut tried.encoded) {
        (Some(key), _) => vec![key.to_owned()],
        (None, Some(encoded)) => std::mem::take(&mut encoded.keys),
        (None, None) => sent.keys_at_its_beginning(),
    }
}

/// Refuses a body that was too large for the limits there are.
fn refuse_larger(
    sent: &EncodedPayload,
    expansion: &Expansion,
    tried: &Tried,
    limits: DecodeLimits,
) -> Result<(), ApiError> {
    let bytes_max = limits.of(tried.encoding);
    let parts_max = match &sent.kind {
        PayloadKind::Parts { bytes_max, .. } => *bytes_max,
        _ => usize::MAX,
    };
    if tried.limits.of(tried.encoding) < bytes_max.min(parts_max) {
        return Ok(());
    }
    Err(if parts_max < bytes_max {
        event_too_large()
    } else {
        expansion.refusal(tried.encoding, tried.is_key_known)
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

/// Returns true if one of the first of these is a project's key. Cached keys are asked first, as
/// that works without the catalog, too.
async fn is_any_known(core: &Core, keys: &[String]) -> Result<bool, ApiError> {
    let known = &core.process.deps.keys;
    if keys.iter().any(|key| is_known(known.cached(key))) {
        return Ok(true);
    }
    for key in keys.iter().take(LOOKUPS_MAX) {
        let found = known.find(key).await;
        if found
            .map_err(|_| core.admission.error(Rejection::KeyLookupFailed))?
            .is_some()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

impl EncodedPayload {
    /// Decoded JSON; `None` if it was sent as it is.
    fn json(
        &self,
        buffers: &Buffers,
        decoder: &RefCell<Decoder>,
        limits: DecodeLimits,
        key: Option<&str>,
    ) -> Result<Option<BodyBuf>, BodyDecodeError> {
        let mut body_decoder = BodyDecoder {
            buffers,
            decoder,
            limits,
        };
        match &self.kind {
            PayloadKind::Body => body_decoder.body(&self.bytes, self.hints),
            PayloadKind::Data => body_decoder.data(&self.bytes, self.hints.compression),
            PayloadKind::Parts {
                boundary,
                bytes_max,
            } => {
                body_decoder.limits = limits.at_most(*bytes_max);
                let json = body_decoder.parts(&self.bytes, self.hints, boundary.clone(), key);
                json.map(Some)
            }
        }
    }

    /// Encoding of the whole, by the head or by the first bytes.
    fn encoding(&self) -> Encoding {
        match self.hints.content_encoding {
            Encoding::Identity => Encoding::of_magic(&self.bytes),
            named => named,
        }
    }

    /// Limits of the next try, of a body that was too large for those `tried`: what it is likely to
    /// decode to, and then all that it may, the memory of which would do for many other bodies.
    fn next_limits(
        &self,
        expansion: &Expansion,
        tried: DecodeLimits,
        limits: DecodeLimits,
    ) -> DecodeLimits {
        // A form's field is decoded within the body, so that there is more than one output.
        if self.hints.form || !matches!(self.kind, PayloadKind::Body) {
            return limits;
        }
        let encoding = self.encoding();
        let said = said_bytes(encoding, &self.bytes);
        match expansion.likely_bytes_max(encoding, limits, said) {
            Some(likely) if likely > tried.of(encoding) => limits.at_most(likely),
            _ => limits,
        }
    }

    /// Bytes of memory that it takes to decode it within these limits.
    fn memory_max(&self, limits: DecodeLimits) -> usize {
        match &self.kind {
            // All parts together, and the event that they make.
            PayloadKind::Parts { bytes_max, .. } => {
                limits.bytes_max.min(bytes_max.saturating_mul(2))
            }
            PayloadKind::Body | PayloadKind::Data => limits.bytes_max,
        }
    }

    /// Keys in the first part of a compressed body: known projects need not wait with unknown ones.
    fn keys_at_its_beginning(&self) -> Vec<String> {
        let encoding = self.encoding();
        match encoding {
            Encoding::Gzip | Encoding::Deflate | Encoding::Zstd => {
                keys_at_beginning(encoding, &self.bytes)
            }
            // Brotli and LZString may take long for a few bytes, and all other encodings come whole
            // or not at all.
            _ => Vec::new(),
        }
    }

    /// Replaces what was sent by its JSON.
    fn replaced(self, json: Option<BodyBuf>, buffers: &Buffers) -> BodyBuf {
        match json {
            None => self.bytes,
            Some(json) => {
                self.bytes.recycle(buffers);
                json
            }
        }
    }
}

const fn is_known(lookup: KeyLookup) -> bool {
    matches!(lookup, KeyLookup::Found(_))
}

/// Builds a 400 for an event in parts, as for every event that is too large.
fn event_too_large() -> ApiError {
    ApiError::invalid(
        "event_too_large",
        "The event is larger than one event may be, with all its parts. Send less with it.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use libdeflater::{CompressionLvl, Compressor};

    fn gzip(plain: &str) -> Vec<u8> {
        let mut compressor = Compressor::new(CompressionLvl::default());
        let mut out = vec![0; compressor.gzip_compress_bound(plain.len())];
        let written = compressor.gzip_compress(plain.as_bytes(), &mut out);
        out.truncate(written.unwrap());
        out
    }

    /// Returns so many bytes and some that compress to half of that.
    fn noise(bytes: usize) -> String {
        let (mut noise, mut seed) = (String::new(), 1_u64);
        while noise.len() < bytes {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            noise += &format!("{seed:x}");
        }
        noise
    }

    /// Regression: each body with a known key had memory for 200 times what was sent, so that five
    /// had all there is.
    #[test]
    fn a_body_has_memory_for_what_it_is_likely_to_decode_to_and_then_for_all_that_it_may() {
        const MIB: usize = 1 << 20;
        let mut plain = noise(2 * MIB);
        plain += &"0".repeat(12 * MIB - plain.len());
        let honest = gzip(&plain);
        let (mut liar, mut silent) = (honest.clone(), honest.clone());
        let sent = honest.len();
        for (body, size) in [(&mut liar, 60 * MIB), (&mut silent, 0)] {
            let end = u32::try_from(size).unwrap().to_le_bytes();
            body[sent - 4..].copy_from_slice(&end);
        }
        let boundary = Boundary::of(Some(b"multipart/form-data; boundary=b")).unwrap();
        let parts = PayloadKind::parts(boundary, MIB);
        let (named, form) = (Encoding::Gzip, Encoding::Identity);
        let table = [
            (
                "honest",
                honest,
                named,
                PayloadKind::Body,
                vec![12 * MIB + 1],
            ),
            ("it says more", liar, named, PayloadKind::Body, vec![]),
            (
                "it says less",
                silent.clone(),
                named,
                PayloadKind::Body,
                vec![40 * sent],
            ),
            ("in a form", silent.clone(), form, PayloadKind::Body, vec![]),
            ("in parts", silent, Encoding::Identity, parts, vec![8 * MIB]),
        ];
        for (what, body, content_encoding, kind, before) in table {
            let is_of_parts = matches!(kind, PayloadKind::Parts { .. });
            let payload = EncodedPayload {
                bytes: BodyBuf::Buffer(body),
                kind,
                hints: Hints {
                    content_encoding,
                    form: what == "in a form",
                    ..Hints::default()
                },
            };
            let expansion = Expansion::of(sent, 100 * MIB);
            let all = expansion.limits(true);
            let (mut tried, mut reserved) = (DecodeLimits::of_all(0), Vec::new());
            while tried != all {
                tried = payload.next_limits(&expansion, tried, all);
                reserved.push(payload.memory_max(tried));
            }
            let last = (!is_of_parts).then_some(100 * MIB);
            let expected: Vec<usize> = before.into_iter().chain(last).collect();
            assert_eq!(reserved, expected, "{what}");
        }
    }

    #[test]
    fn a_key_at_the_beginning_of_a_large_compressed_body_is_found_before_the_body_is_decoded() {
        let noise = noise(4 << 20);
        let first = gzip(&format!(r#"{{"api_key":"phc_a","batch":["{noise}"]}}"#));
        let last = gzip(&format!(r#"{{"batch":["{noise}"],"api_key":"phc_a"}}"#));
        assert!(first.len() > ON_CORE_SENT_BYTES_MAX);
        let cut = first[..first.len() / 2].to_vec();
        let (named, unnamed) = (Encoding::Gzip, Encoding::Identity);
        for (what, body, content_encoding, expected) in [
            ("named", first.clone(), named, Some("phc_a")),
            ("by its first bytes", first.clone(), unnamed, Some("phc_a")),
            ("cut short", cut, named, Some("phc_a")),
            ("behind the events", last, named, None),
            ("named wrongly", first, Encoding::Zstd, None),
            ("not compressed", noise.into_bytes(), unnamed, None),
        ] {
            let sent = EncodedPayload {
                bytes: BodyBuf::Buffer(body),
                kind: PayloadKind::Body,
                hints: Hints {
                    content_encoding,
                    ..Hints::default()
                },
            };
            let keys = sent.keys_at_its_beginning();
            assert_eq!(keys.first().map(String::as_str), expected, "{what}");
        }
    }
}
