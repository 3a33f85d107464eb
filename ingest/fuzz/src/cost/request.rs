//! A server's work for a body: decode, parse, refuse.

use super::bounds::{Cost, DECODED_BYTES_MAX, KEY};
use super::generated::{Carrier, GeneratedBody};
use crate::parse::context;
use millrace_encoding::{
    BodyDecoder, Boundary, Buffers, Decoder, Encoding, Expansion, Hints, testing,
};
use millrace_parse::{Footprint, KeyLookup, Parser, Project, Protocol};
use millrace_rows::ProjectId;
use std::cell::RefCell;

/// Bytes that simd-json reserves for each structural character, for a tape that it never writes.
const TAPE_BYTES: u64 = 24;

impl GeneratedBody {
    /// Decodes and parses the request as a server does, and notes what its bounds depend on.
    pub(super) fn request(&self, cost: &mut Cost) {
        let (sent, encoding, carrier) = (self.sent.as_slice(), self.encoding, self.carrier);
        let expansion = Expansion::of(sent.len(), DECODED_BYTES_MAX);
        let boundary = Boundary::of(Some(b"multipart/form-data; boundary=b")).unwrap();
        let (buffers, decoder) = (Buffers::default(), RefCell::<Decoder>::default());
        let hints = Hints {
            content_encoding: match carrier {
                Carrier::Body | Carrier::Blocks | Carrier::Trees | Carrier::V1 => encoding,
                Carrier::Base64 => Encoding::Base64,
                _ => Encoding::Identity,
            },
            compression: match carrier {
                Carrier::Query => encoding,
                _ => Encoding::Identity,
            },
            form: carrier == Carrier::Form,
        };
        let decode = |limits| {
            let body_decoder = BodyDecoder {
                buffers: &buffers,
                decoder: &decoder,
                limits,
            };
            match carrier {
                Carrier::Parts | Carrier::ManyParts => body_decoder
                    .parts(sent, hints, boundary.clone(), None)
                    .map(Some),
                Carrier::Query => body_decoder.data(sent, hints.compression),
                _ => body_decoder.body(sent, hints),
            }
        };
        let decoded = testing::decode(sent, hints, self.key, expansion, decode, |key| key == KEY);
        cost.is_key_known = decoded.is_key_known;
        cost.decoded_bytes = expansion.limits(cost.is_key_known).of(encoding) as u64;
        let Ok(json) = decoded.json else { return };
        let text = json.as_deref().unwrap_or(sent);
        if carrier != Carrier::Blocks {
            cost.decoded_bytes = text.len() as u64;
        }
        let structure = text.iter().filter(|byte| b"{}[]:,\"".contains(byte));
        cost.reserved_bytes = structure.count() as u64 * TAPE_BYTES;
        let mut parser = Parser::with_capacity_for(&Footprint::of(text));
        let mut context = context(0);
        if let Some(key) = self.key {
            context.protocol = Protocol::V1 {
                key,
                sent_at: None,
                sdk_info: None,
            };
        }
        let parsed = parser.parse(text, &context, &mut |key| {
            if key != KEY {
                return KeyLookup::Unknown;
            }
            cost.is_key_known = true;
            KeyLookup::Found(Project {
                id: ProjectId(1),
                anonymize_ips: false,
                ingested_event: true,
            })
        });
        drop(parsed);
    }
}
