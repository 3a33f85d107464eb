//! Fingerprint of a request, by which it is known when it is sent again.
//!
//! It covers all that is stored of the events as sent: their text, whole and as it lies in the
//! body, and the parts of the rest of the request that decide how they are stored. It leaves out
//! when and from where they were sent, as that may be new whenever an SDK tries again.

use crate::span::{BodyShape, Document, Span};
use crate::validate::Rules;
use crate::{ParseContext, Protocol};
use std::ops::Range;
use twox_hash::XxHash3_128;

/// Fingerprint of the request in `document`, of whose events so many were refused.
///
/// Which events are refused depends on the time of receipt, too: an event that was refused as one
/// of the future may be stored when it comes again, so that the request is another one.
pub fn of(
    document: &Document,
    rules: &Rules<'_>,
    context: &ParseContext<'_>,
    rejected: u32,
) -> u128 {
    let sdk_info = match context.protocol {
        Protocol::V0 => None,
        Protocol::V1 { sdk_info, .. } => sdk_info,
    };
    let kind = u128::from(rules.historical)
        | u128::from(rules.nameless_is_identify) << 1
        | u128::from(rules.is_v1) << 2
        | (document.shape as u128) << 3;
    let project_id = u128::from(rules.project_id.0.cast_unsigned());
    let around = project_id << 64 | u128::from(rejected) << 32 | kind;
    let sdk_info = sdk_info.map_or(0, |text| XxHash3_128::oneshot(text.as_bytes()));
    let [first, second, rest] = pieces(document, rules.body).map(|piece| match piece {
        [] => 0,
        piece => XxHash3_128::oneshot(piece),
    });
    XxHash3_128::oneshot(bytemuck::bytes_of(&[around, sdk_info, first, second, rest]))
}

/// Text of all events: in one piece with what is between them, as that is far cheaper than event by
/// event. A single event also says when it was sent, and is cut there.
fn pieces<'b>(document: &Document, body: &'b [u8]) -> [&'b [u8]; 3] {
    let events = document.events.as_slice();
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        return [b""; 3];
    };
    let mut rest = first.whole.start()..last.whole.end();
    let mut times = [Span::default(); 2];
    if document.shape == BodyShape::Single {
        times = [document.sent_at, document.sent_at_camel];
        times.sort_unstable_by_key(Span::start);
    }
    let [first, second] = times.map(|time| before(time, &mut rest, body));
    [first, second, body.get(rest).unwrap_or_default()]
}

/// Cuts off the text before a value, and leaves out the value; empty if there is none.
fn before<'b>(value: Span, rest: &mut Range<usize>, body: &'b [u8]) -> &'b [u8] {
    if value == Span::default() {
        return b"";
    }
    let start = std::mem::replace(&mut rest.start, value.end());
    body.get(start..value.start()).unwrap_or_default()
}
