//! Payloads as they are sent and decoded.

use crate::admission::budget::Share;
use crate::offload::OffloadSlot;
use millrace_encoding::{
    BodyBuf, BodyDecodeError, BodyDecoder, Boundary, Buffers, DecodeLimits, Decoder, Encoding,
    Expansion, Hints, keys_at_beginning,
};
use millrace_parse::KeyLookup;
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

impl EncodedPayload {
    /// Decoded JSON; `None` if it was sent as it is.
    pub(super) fn json(
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

    /// Limits of the next try, of a payload that was too large for those `tried`.
    pub(super) fn next_limits(
        &self,
        expansion: &Expansion,
        tried: DecodeLimits,
        limits: DecodeLimits,
    ) -> DecodeLimits {
        // A form's field is decoded within the body, so that there is more than one output.
        if self.hints.form || !matches!(self.kind, PayloadKind::Body) {
            return limits;
        }
        expansion.next_limits(self.encoding(), &self.bytes, tried, limits)
    }

    /// Bytes of memory that it takes to decode it within these limits.
    pub(super) fn memory_max(&self, limits: DecodeLimits) -> usize {
        match &self.kind {
            // All parts together, and the event that they make.
            PayloadKind::Parts { bytes_max, .. } => {
                limits.bytes_max.min(bytes_max.saturating_mul(2))
            }
            PayloadKind::Body | PayloadKind::Data => limits.bytes_max,
        }
    }

    /// Keys in the first part of a compressed body: known projects need not wait with unknown ones.
    pub(super) fn keys_at_its_beginning(&self) -> Vec<String> {
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
    pub(super) fn replaced(self, json: Option<BodyBuf>, buffers: &Buffers) -> BodyBuf {
        match json {
            None => self.bytes,
            Some(json) => {
                self.bytes.recycle(buffers);
                json
            }
        }
    }
}

pub(super) const fn is_known(lookup: KeyLookup) -> bool {
    matches!(lookup, KeyLookup::Found(_))
}
