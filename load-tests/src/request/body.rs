//! Request body with the positions of the fields that change.

use crate::api::Api;
use crate::event_id::{BATCH_TEXT, EventId, batch_text};
use crate::event_shape::{self, EventText};
use crate::keys::Keys;
use crate::mix::RequestSize;
use crate::plan::Plan;
use crate::wall_clock::{SECONDS_TEXT_BYTES, seconds_text};
use std::fmt::Write;
use std::ops::Range;

/// `true` and `false`, in the same number of bytes.
const HISTORICAL_TEXT: [&[u8; 5]; 2] = [b"false", b"true "];
/// Names of the field that gives an event its person. The second one leaves the event without a
/// person, so that it is rejected.
const DISTINCT_ID_TEXT: [&[u8; 11]; 2] = [b"distinct_id", b"distinct_??"];

/// Body of a request.
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    pub(super) offsets: PatchOffsets,
    /// Number of events.
    pub(super) events: u32,
}

/// Values of the fields that change.
pub(super) struct Fields<'a> {
    /// Number of the batch on its connection.
    pub(super) batch: u32,
    /// True for a historical migration.
    pub(super) historical: bool,
    /// Seconds since 1970 at which the request is sent.
    pub(super) now: i64,
    /// Seconds since 1970 at which the events happened.
    pub(super) happened: i64,
    /// True if the first event is to be rejected.
    pub(super) rejected: bool,
    /// Project key, if requests have different ones.
    pub(super) key: Option<&'a str>,
}

/// Positions of the changing fields in the body.
#[derive(Default)]
pub(super) struct PatchOffsets {
    /// Keys, each with its closing quote and the spaces after it; in bodies of users, where all
    /// keys have one length, the key alone.
    pub(super) keys_at: Vec<Range<usize>>,
    historical_at: Option<usize>,
    sent_at: Option<usize>,
    /// Position in the first event.
    distinct_id_at: Option<usize>,
    pub(super) uuids_at: Vec<usize>,
    /// Distance of an event's timestamp from its uuid; `None` in bodies of users.
    timestamp_after_uuid: Option<usize>,
    /// Other times, in bodies of users.
    pub(super) times_at: Vec<usize>,
}

impl PatchOffsets {
    pub(super) fn patch(&self, body: &mut [u8], fields: &Fields<'_>) {
        let [live_text, historical_text] = HISTORICAL_TEXT;
        if let Some(at) = self.historical_at {
            let flag = if fields.historical {
                historical_text
            } else {
                live_text
            };
            put(body, at, flag);
        }
        if let Some(at) = self.sent_at {
            put(body, at, &seconds_text(fields.now));
        }
        let batch = batch_text(fields.batch);
        let timestamp: [u8; SECONDS_TEXT_BYTES] = seconds_text(fields.happened);
        for uuid_at in &self.uuids_at {
            put(body, uuid_at + BATCH_TEXT.start, &batch);
            if let Some(distance) = self.timestamp_after_uuid {
                put(body, uuid_at + distance, &timestamp);
            }
        }
        for at in &self.times_at {
            put(body, *at, &timestamp);
        }
        let [good, bad] = DISTINCT_ID_TEXT;
        if let Some(at) = self.distinct_id_at {
            put(body, at, if fields.rejected { bad } else { good });
        }
        let Some(key) = fields.key else {
            return;
        };
        for range in &self.keys_at {
            put_key(body, range.clone(), key);
        }
    }
}

/// Overwrites a key and its closing quote; the longest key sets the width, and shorter ones are
/// followed by spaces.
fn put_key(body: &mut [u8], range: Range<usize>, key: &str) {
    let spot = body.get_mut(range).unwrap_or_default();
    let padded = key.bytes().chain([b'"']).chain(std::iter::repeat(b' '));
    for (spot, byte) in spot.iter_mut().zip(padded) {
        *spot = byte;
    }
}

/// Overwrites the bytes at `at`. The length is a constant, so this compiles to a few moves.
#[inline]
fn put<const N: usize>(body: &mut [u8], at: usize, bytes: &[u8; N]) {
    if let Some(spot) = body.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *spot = *bytes;
    }
}

/// Builds a body of a size with every changing field at its full width.
pub(super) fn build_body(plan: &Plan, size: RequestSize, run: u32, connection: u16) -> Body {
    let mut builder = Builder {
        text: String::new(),
        offsets: PatchOffsets::default(),
        keys: &plan.keys,
    };
    match plan.api {
        Api::Batch => builder.push_envelope(),
        Api::List => builder.text.push('['),
        Api::Event => {}
    }
    let batch = event_shape::Batch {
        shape: plan.event_shape,
        connection,
        event_bytes: size.event_bytes.unwrap_or(plan.event_bytes),
    };
    for index in 0..size.events {
        let id = EventId {
            run,
            connection,
            batch: 0,
            index,
        };
        if index > 0 {
            builder.text.push(',');
        }
        let event = batch.event(index, &id.to_uuid().to_string());
        builder.push_event(&event, plan.api != Api::Batch);
    }
    builder.text.push_str(match plan.api {
        Api::Batch => "]}",
        Api::List => "]",
        Api::Event => "",
    });
    Body {
        bytes: builder.text.into_bytes(),
        offsets: builder.offsets,
        events: size.events,
    }
}

struct Builder<'a> {
    text: String,
    offsets: PatchOffsets,
    keys: &'a Keys,
}

impl Builder<'_> {
    /// Appends the beginning of a batch, up to its events.
    fn push_envelope(&mut self) {
        self.text.push('{');
        self.push_key();
        self.text.push_str(",\"historical_migration\":");
        self.offsets.historical_at = Some(self.text.len());
        self.text.push_str("false,\"sent_at\":\"");
        self.offsets.sent_at = Some(self.text.len());
        self.text.push_str("1970-01-01T00:00:00.000Z\",\"batch\":[");
    }

    fn push_key(&mut self) {
        self.text.push_str("\"api_key\":\"");
        let at = self.text.len();
        let first = format!("{}\"", self.keys.assign(1, 0, 0).key);
        let width = self.keys.bytes_max() + 1;
        let _ = write!(self.text, "{first:width$}");
        self.offsets.keys_at.push(at..self.text.len());
    }

    /// Appends an event, with its own key if it is to have one.
    fn push_event(&mut self, event: &EventText, has_key: bool) {
        if has_key {
            self.text.push('{');
            self.push_key();
            self.text.push(',');
        }
        // The event's own brace is left out behind a key.
        let left_out = usize::from(has_key);
        let at = self.text.len() - left_out;
        if self.offsets.distinct_id_at.is_none() {
            let [good, _] = DISTINCT_ID_TEXT;
            let mut names = event.json.as_bytes().windows(good.len());
            let found = names.position(|name| name == good);
            self.offsets.distinct_id_at = found.map(|found| at + found);
        }
        self.offsets.uuids_at.push(at + event.uuid_at);
        self.offsets.timestamp_after_uuid = Some(event.timestamp_at - event.uuid_at);
        self.text
            .push_str(event.json.get(left_out..).unwrap_or_default());
    }
}
