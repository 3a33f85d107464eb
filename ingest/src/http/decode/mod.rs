//! Decodes a body as it was sent to JSON.

mod encoded_payload;
mod offloaded;
#[cfg(test)]
mod tests;

use super::context::RequestContext;
use crate::admission::budget::Share;
use crate::scheduling::flow::Flow;
use encoded_payload::is_known;
pub use encoded_payload::{DecodedPayload, EncodedPayload, PayloadKind};
use millrace_encoding::{BodyDecodeError, DecodeLimits, Encoding, Expansion};
use millrace_parse::ApiError;
use millrace_rows::Lane;
pub use offloaded::known_flow;
use offloaded::{DecodeAttempt, decode_offloaded};

/// Decodes a payload; `key` is its project's where the head names it.
pub async fn decode(
    request: &RequestContext<'_>,
    sent: EncodedPayload,
    lane: Lane,
    key: Option<&str>,
    mut share: Share,
) -> Result<DecodedPayload, ApiError> {
    let core = request.core;
    let sent_bytes = sent.bytes.len();
    let decoded_bytes_max = core.process.config.limits.decoded_bytes_max;
    let expansion = Expansion::of(sent_bytes, decoded_bytes_max);
    let mut tried = DecodeAttempt {
        limits: DecodeLimits::of_all(0),
        lane,
        flow: Flow::UNKNOWN,
        encoded: None,
        encoding: Encoding::Identity,
    };
    if !sent.hints.may_take_long(sent_bytes) || !sent.hints.may_be_encoded(&sent.bytes) {
        let known = key.filter(|key| is_known(core.process.deps.keys.cached(key)));
        if let Some(key) = known {
            tried.flow = Flow::of_key(key.as_bytes());
            share.mark_project_known();
        }
        let limits = expansion.limits(tried.flow.is_known());
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
