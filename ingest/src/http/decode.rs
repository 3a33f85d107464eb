//! From a body as it was sent to the JSON that was meant.

use super::Call;
use super::beside::{Beside, ON_CORE_SENT_BYTES_MAX};
use super::body::overloaded;
use super::parse::{LOOKUPS_MAX, catalog_unavailable};
use crate::budget::Share;
use crate::core::Core;
use millrace_encoding::{
    Boundary, Buffers, Decoder, Encoded, Encoding, Expansion, Hints, Room, UnwrapError, Unwrapper,
    Whole, keys_at_beginning, keys_in,
};
use millrace_parse::{ApiError, KeyLookup};
use std::cell::RefCell;

/// Bytes of an event in parts, in events of the largest size: a larger one is refused by itself, and kept
/// with those that were, but nobody's mistake is to cost as much as a batch may.
const PARTS_PER_EVENT_MAX: usize = 4;

/// A body as it was sent, and how it is taken apart.
pub struct Sent {
    pub bytes: Whole,
    pub shape: Shape,
    pub hints: Hints,
}

/// What a payload is the body of.
pub enum Shape {
    /// A request.
    Body,
    /// The query parameter `data`.
    Data,
    /// An event in parts of so many bytes, at most.
    Parts {
        boundary: Boundary,
        bytes_max: usize,
    },
}

impl Shape {
    /// An event in parts, of which the largest has so many bytes.
    pub const fn parts(boundary: Boundary, event_bytes_max: usize) -> Self {
        Self::Parts {
            boundary,
            bytes_max: event_bytes_max * PARTS_PER_EVENT_MAX,
        }
    }
}

/// A body as it was meant.
pub struct Decoded {
    pub json: Whole,
    /// The memory that it is accounted for.
    pub share: Share,
    /// The thread on which it was decoded, if that was not the core's.
    pub beside: Option<Beside>,
}

/// Decodes a body; `key` is its project's where the head names it.
pub async fn decode(
    call: &Call<'_>,
    sent: Sent,
    key: Option<&str>,
    mut share: Share,
) -> Result<Decoded, ApiError> {
    let core = call.core;
    let sent_bytes = sent.bytes.len();
    let decoded_bytes_max = core.shared.config.limits.decoded_bytes_max;
    let expansion = Expansion::of(sent_bytes, decoded_bytes_max);
    let mut tried = Tried {
        room: Room::of_all(0),
        is_key_known: false,
        encoded: None,
        encoding: Encoding::Identity,
    };
    let is_short = sent_bytes <= ON_CORE_SENT_BYTES_MAX && !sent.hints.may_take_long(sent_bytes);
    if is_short || !sent.hints.may_be_encoded(&sent.bytes) {
        tried.is_key_known = key.is_some_and(|key| is_known(core.shared.deps.keys.cached(key)));
        if tried.is_key_known {
            share.is_of_known_project();
        }
        let room = expansion.room(tried.is_key_known);
        tried.room = room.on_core(sent_bytes);
        match sent.json(&core.buffers, &core.decoder, tried.room, key) {
            Ok(json) => {
                let json = sent.replaced(json, &core.buffers);
                if !share.grow_to(sent_bytes.max(json.len())) {
                    return Err(overloaded(core));
                }
                return Ok(Decoded {
                    json,
                    share,
                    beside: None,
                });
            }
            Err(UnwrapError::Refused(error)) => return Err(error),
            Err(UnwrapError::TooLarge(encoded)) => tried.encoded = Some(encoded),
        }
    }
    // Boxed, as few requests come here and all would carry its room.
    Box::pin(decode_beside(call, sent, key, share, expansion, tried)).await
}

/// How far a body was decoded in vain.
struct Tried {
    room: Room,
    is_key_known: bool,
    encoded: Option<Encoded>,
    /// Of what was too large.
    encoding: Encoding,
}

/// Decodes a body that is too large for a core, or for one whose key is not known.
#[cold]
async fn decode_beside(
    call: &Call<'_>,
    mut sent: Sent,
    key: Option<&str>,
    mut share: Share,
    expansion: Expansion,
    mut tried: Tried,
) -> Result<Decoded, ApiError> {
    let core = call.core;
    let keys = keys_so_far(key, &mut tried, &sent);
    tried.is_key_known = is_any_known(core, &keys).await?;
    let mut beside = Beside::enter(call, tried.is_key_known).await?;
    let mut is_searched = false;
    loop {
        if let Some(encoded) = tried.encoded.take() {
            tried.encoding = encoded.encoding;
            if key.is_none() && !tried.is_key_known {
                tried.is_key_known = is_any_known(core, &encoded.keys).await?;
            }
            let is_found = key.is_some() || tried.is_key_known;
            if let Some(bytes_max) = expansion.searched_bytes_max(encoded.encoding)
                && bytes_max > tried.room.of(encoded.encoding)
                && !is_found
                && !is_searched
            {
                is_searched = true;
                let keys;
                (beside, sent, share, keys) =
                    search(core, beside, (sent, share), encoded, bytes_max).await?;
                tried.is_key_known = is_any_known(core, &keys).await?;
            }
        }
        if tried.is_key_known {
            beside.is_of_known_project();
            share.is_of_known_project();
        }
        let room = expansion.room(tried.is_key_known);
        refuse_larger(&sent, &expansion, &tried, room)?;
        let head_key = key.map(str::to_owned);
        let work = move || {
            let (buffers, decoder) = (Buffers::default(), RefCell::default());
            let json = sent.json(&buffers, &decoder, room, head_key.as_deref());
            let decoded = json
                .as_ref()
                .map_or(0, |json| json.as_ref().map_or(0, |it| it.len()));
            let has_room = share.grow_to(sent.bytes.len().max(decoded));
            (sent, json, share, has_room)
        };
        let (json, has_room);
        (beside, (sent, json, share, has_room)) = beside.run(core, work).await?;
        if !has_room {
            return Err(overloaded(core));
        }
        match json {
            Ok(json) => {
                return Ok(Decoded {
                    json: sent.replaced(json, &core.buffers),
                    share,
                    beside: Some(beside),
                });
            }
            Err(UnwrapError::Refused(error)) => return Err(error),
            Err(UnwrapError::TooLarge(encoded)) => {
                tried.room = room;
                tried.encoded = Some(encoded);
            }
        }
    }
}

/// Keys that the head or the beginning of the body names.
fn keys_so_far(key: Option<&str>, tried: &mut Tried, sent: &Sent) -> Vec<String> {
    match (key, &mut tried.encoded) {
        (Some(key), _) => vec![key.to_owned()],
        (None, Some(encoded)) => std::mem::take(&mut encoded.keys),
        (None, None) => sent.keys_at_its_beginning(),
    }
}

/// Refuses a body that was too large for as much room as there is.
fn refuse_larger(
    sent: &Sent,
    expansion: &Expansion,
    tried: &Tried,
    room: Room,
) -> Result<(), ApiError> {
    let bytes_max = room.of(tried.encoding);
    let parts_max = match &sent.shape {
        Shape::Parts { bytes_max, .. } => *bytes_max,
        _ => usize::MAX,
    };
    if tried.room.of(tried.encoding) < bytes_max.min(parts_max) {
        return Ok(());
    }
    Err(if parts_max < bytes_max {
        event_too_large()
    } else {
        expansion.refusal(tried.encoding, tried.is_key_known)
    })
}

/// Looks for keys further on in what was too large.
async fn search(
    core: &Core,
    beside: Beside,
    (sent, mut share): (Sent, Share),
    encoded: Encoded,
    bytes_max: usize,
) -> Result<(Beside, Sent, Share, Vec<String>), ApiError> {
    let work = move || {
        let has_room = share.grow_to(sent.bytes.len().max(bytes_max));
        let bytes = encoded.inner.as_deref().unwrap_or(&sent.bytes);
        let keys = has_room.then(|| keys_in(encoded.encoding, bytes, bytes_max));
        (sent, share, keys)
    };
    let (beside, (sent, share, keys)) = beside.run(core, work).await?;
    let keys = keys.ok_or_else(|| overloaded(core))?;
    Ok((beside, sent, share, keys))
}

/// Whether one of the first of these is a project's key. What is cached is asked first, as that works without
/// the catalog, too.
async fn is_any_known(core: &Core, keys: &[String]) -> Result<bool, ApiError> {
    let known = &core.shared.deps.keys;
    if keys.iter().any(|key| is_known(known.cached(key))) {
        return Ok(true);
    }
    for key in keys.iter().take(LOOKUPS_MAX) {
        let found = known.find(key).await;
        if found.map_err(|_| catalog_unavailable(core))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Sent {
    /// The JSON, unless what was sent is just that.
    fn json(
        &self,
        buffers: &Buffers,
        decoder: &RefCell<Decoder>,
        room: Room,
        key: Option<&str>,
    ) -> Result<Option<Whole>, UnwrapError> {
        let mut unwrapper = Unwrapper {
            buffers,
            decoder,
            room,
        };
        match &self.shape {
            Shape::Body => unwrapper.body(&self.bytes, self.hints),
            Shape::Data => unwrapper.data(&self.bytes, self.hints.compression),
            Shape::Parts {
                boundary,
                bytes_max,
            } => {
                unwrapper.room = room.at_most(*bytes_max);
                let json = unwrapper.parts(&self.bytes, self.hints, boundary.clone(), key);
                json.map(Some)
            }
        }
    }

    /// Keys in the first part of a compressed body: who is known need not wait with those who are not.
    fn keys_at_its_beginning(&self) -> Vec<String> {
        let encoding = match (self.hints.content_encoding, self.hints.compression) {
            (Encoding::Identity, _) => Encoding::of_magic(&self.bytes),
            (named, _) => named,
        };
        match encoding {
            Encoding::Gzip | Encoding::Deflate | Encoding::Zstd => {
                keys_at_beginning(encoding, &self.bytes)
            }
            // Brotli and LZString may take long for a few bytes, and all else comes whole or not at all.
            _ => Vec::new(),
        }
    }

    /// The JSON in place of what was sent.
    fn replaced(self, json: Option<Whole>, buffers: &Buffers) -> Whole {
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

/// 400 for an event in parts, as for every event that is too large.
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
        let mut compressor = Compressor::new(CompressionLvl::fastest());
        let mut out = vec![0; compressor.gzip_compress_bound(plain.len())];
        let written = compressor.gzip_compress(plain.as_bytes(), &mut out);
        out.truncate(written.unwrap());
        out
    }

    #[test]
    fn a_key_at_the_beginning_of_a_large_compressed_body_is_found_before_the_body_is_decoded() {
        let mut noise = String::new();
        let mut seed: u64 = 1;
        while noise.len() < 4 << 20 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            noise += &format!("{seed:x}");
        }
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
            let sent = Sent {
                bytes: Whole::Buffer(body),
                shape: Shape::Body,
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
