//! Request body with the positions of the fields that change.

use crate::event_id::{BATCH_TEXT, EventId, TEXT_BYTES, batch_text};
use crate::event_shape;
use crate::plan::Plan;
use crate::wall_clock::{SECONDS_TEXT_BYTES, seconds_text};
use std::fmt::Write;
use std::ops::Range;

/// `true` and `false`, in the same number of bytes.
const HISTORICAL_TEXT: [&[u8; 5]; 2] = [b"false", b"true "];
/// Names of the field that gives an event its person. The second one leaves the event without a
/// person, so that it is rejected.
const DISTINCT_ID_TEXT: [&[u8; 11]; 2] = [b"distinct_id", b"distinct_??"];

/// Positions of the changing fields in the body.
pub(super) struct PatchOffsets {
    /// Key with its quotes and the spaces after it.
    key: Range<usize>,
    historical_at: usize,
    sent_at: usize,
    /// Position in the first event.
    distinct_id_at: usize,
    uuids_at: Vec<usize>,
    timestamp_after_uuid: usize,
}

impl PatchOffsets {
    pub(super) fn patch(
        &self,
        body: &mut [u8],
        batch: u32,
        historical: bool,
        now: i64,
        happened: i64,
    ) {
        let [live_text, historical_text] = HISTORICAL_TEXT;
        let flag = if historical {
            historical_text
        } else {
            live_text
        };
        put(body, self.historical_at, flag);
        put(body, self.sent_at, &seconds_text(now));
        let batch = batch_text(batch);
        let timestamp: [u8; SECONDS_TEXT_BYTES] = seconds_text(happened);
        for uuid_at in &self.uuids_at {
            put(body, uuid_at + BATCH_TEXT.start, &batch);
            put(body, uuid_at + self.timestamp_after_uuid, &timestamp);
        }
    }

    pub(super) fn patch_distinct_id(&self, body: &mut [u8], rejected: bool) {
        let [good, bad] = DISTINCT_ID_TEXT;
        put(body, self.distinct_id_at, if rejected { bad } else { good });
    }

    pub(super) fn patch_key(&self, body: &mut [u8], key: &str) {
        let spot = body.get_mut(self.key.clone()).unwrap_or_default();
        let bytes = [b'"'].into_iter().chain(key.bytes()).chain([b'"']);
        let padded = bytes.chain(std::iter::repeat(b' '));
        for (spot, byte) in spot.iter_mut().zip(padded) {
            *spot = byte;
        }
    }
}

/// Overwrites the bytes at `at`. The length is a constant, so this compiles to a few moves.
#[inline]
fn put<const N: usize>(body: &mut [u8], at: usize, bytes: &[u8; N]) {
    if let Some(spot) = body.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *spot = *bytes;
    }
}

/// Builds the body with every changing field at its full width.
pub(super) fn build_body(plan: &Plan, run: u32, connection: u16) -> (Vec<u8>, PatchOffsets) {
    let mut body = "{\"api_key\":".to_owned();
    let key_at = body.len();
    let first = format!("\"{}\"", plan.keys.assign(1, 0, 0).key);
    let _ = write!(body, "{first:width$}", width = plan.keys.bytes_max() + 2);
    let key = key_at..body.len();
    body.push_str(",\"historical_migration\":");
    let historical_at = body.len();
    body.push_str("false,\"sent_at\":\"");
    let sent_at = body.len();
    body.push_str("1970-01-01T00:00:00.000Z\",\"batch\":[");
    let mut offsets = PatchOffsets {
        key,
        historical_at,
        sent_at,
        distinct_id_at: 0,
        uuids_at: Vec::new(),
        timestamp_after_uuid: TEXT_BYTES,
    };
    let batch = event_shape::Batch {
        shape: plan.event_shape,
        connection,
        event_bytes: plan.event_bytes,
    };
    for index in 0..plan.batch_events {
        let id = EventId {
            run,
            connection,
            batch: 0,
            index,
        };
        let event = batch.event(index, &id.to_uuid().to_string());
        if index > 0 {
            body.push(',');
        }
        if index == 0 {
            let [good, _] = DISTINCT_ID_TEXT;
            let at = event.json.as_bytes().windows(good.len());
            offsets.distinct_id_at = body.len() + at.take_while(|window| window != good).count();
        }
        offsets.uuids_at.push(body.len() + event.uuid_at);
        offsets.timestamp_after_uuid = event.timestamp_at - event.uuid_at;
        body.push_str(&event.json);
    }
    body.push_str("]}");
    (body.into_bytes(), offsets)
}
