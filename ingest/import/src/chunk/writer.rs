//! Writes the events of records into the requests of a chunk.

use super::limits::ChunkLimits;
use super::rejects::{ChunkReject, ReplayedReject};
use crate::event_counter::{EventCounter, name_of};
use crate::event_counts::{Day, EventCounts};
use crate::ids::{EventPosition, Ids};
use crate::journal::{EventState, RecordStatus};
use crate::rejected_records::Reject;
use crate::request::{BodyPrefix, NewEvent, Request, RequestBuilder};
use crate::rules::Applier;
use millrace_rows::{Micros, Month};
use millrace_sources::{Event, Events, Id, Position, RecordError};
use std::collections::BTreeMap;

/// Most bytes of an event, which is the server's limit.
const EVENT_BYTES_MAX: usize = 1 << 20;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// A chunk that is being read.
#[derive(Default)]
pub(super) struct ChunkBuilder {
    /// The request of each month that has space for more events.
    pub(super) open: BTreeMap<Month, RequestBuilder>,
    /// Full requests by month.
    pub(super) full: BTreeMap<Month, Vec<Request>>,
    pub(super) bytes: usize,
    pub(super) records: u64,
    pub(super) skipped: u64,
    pub(super) made_before: EventCounts,
    pub(super) generated: EventCounts,
    pub(super) times: Option<(Micros, Micros)>,
    pub(super) rejects: Vec<ChunkReject>,
    pub(super) replayed: Vec<ReplayedReject>,
    pub(super) left_out: u64,
}

impl ChunkBuilder {
    /// Notes a reject that is replayed; returns the state that its event reached before.
    pub(super) fn replay(
        &mut self,
        reject: &Reject,
        status: RecordStatus,
        source: usize,
    ) -> EventState {
        let open_refusal = match status {
            RecordStatus::Refused(open_refusal) => Some(open_refusal),
            RecordStatus::Settled | RecordStatus::New => None,
        };
        let event = open_refusal
            .as_ref()
            .map_or(EventState::None, |it| it.event);
        self.replayed.push(ReplayedReject {
            source: u32::try_from(source).unwrap_or(u32::MAX),
            ordinal: reject.ordinal,
            open_refusal,
        });
        event
    }
}

/// Writes the events of a record into requests.
pub(super) struct RecordWriter<'a, 'rules> {
    pub(super) events: &'a Events,
    pub(super) applier: Option<&'a mut Applier<'rules>>,
    pub(super) ids: &'a mut Ids,
    pub(super) stem: &'a str,
    pub(super) limits: ChunkLimits,
    pub(super) prefix: &'a BodyPrefix,
    pub(super) counter: &'a mut EventCounter,
    /// Index of the record's file among the chunk's sources.
    pub(super) source: u32,
    /// State that the record's event reached in an earlier attempt.
    pub(super) before: EventState,
    /// True if the event was written, and so is accepted unless the server refuses it.
    pub(super) is_written: bool,
}

impl RecordWriter<'_, '_> {
    /// Writes the events of a record.
    ///
    /// Those before one that cannot be written stay: events do not depend on each other.
    pub(super) fn record(
        &mut self,
        at: Position,
        raw: &[u8],
        chunk: &mut ChunkBuilder,
    ) -> Result<(), RecordError> {
        let mut is_skipped = true;
        for (index, event) in (0..).zip(self.events.list()) {
            let uuid = match &event.id {
                Id::Own => None,
                Id::Key(range) => Some(self.ids.of_key(self.events.key(range))),
                Id::Record => {
                    let position = EventPosition {
                        stem: self.stem,
                        ordinal: at.ordinal,
                        index,
                    };
                    Some(self.ids.of_record(raw, position))
                }
            };
            let from = if event.in_record {
                raw
            } else {
                self.events.json()
            };
            let json = from.get(event.json.clone()).unwrap_or_default();
            let is_whole = event.in_record && json.len() == raw.len();
            let name = from.get(event.name.clone()).unwrap_or_default();
            let new = NewEvent {
                json,
                uuid,
                record: (!is_whole).then_some(raw),
                at,
                source: self.source,
                counted: None,
            };
            is_skipped &= !self.event(event, new, name, raw, chunk)?;
        }
        chunk.skipped += u64::from(is_skipped);
        Ok(())
    }

    /// Applies the rules to an event and writes it into the request of its month; returns false if
    /// a rule drops it.
    fn event(
        &mut self,
        event: &Event,
        new: NewEvent<'_>,
        name: &[u8],
        raw: &[u8],
        chunk: &mut ChunkBuilder,
    ) -> Result<bool, RecordError> {
        let timestamp = event.timestamp.unwrap_or_default();
        let Some(applier) = self.applier.as_mut() else {
            let new = NewEvent {
                counted: self.counted(event, timestamp),
                ..new
            };
            self.put(new, timestamp, chunk)?;
            self.count(event, timestamp, name, chunk);
            return Ok(true);
        };
        let applied = applier.apply(new.json, timestamp)?;
        let Some(json) = applied.json else {
            return Ok(false);
        };
        let name = serde_json::Value::from(applied.name.as_str()).to_string();
        let name = name.trim_matches('"').as_bytes();
        let new = NewEvent {
            json: json.as_bytes(),
            record: Some(raw),
            counted: self.counted(event, applied.timestamp),
            ..new
        };
        self.put(new, applied.timestamp, chunk)?;
        self.count(event, applied.timestamp, name, chunk);
        Ok(true)
    }

    /// State that the record's event reached, if the server accepts the request.
    pub(super) fn reached(&self) -> EventState {
        if self.is_written {
            EventState::Accepted
        } else {
            self.before
        }
    }

    fn count(&mut self, event: &Event, at: Micros, name: &[u8], chunk: &mut ChunkBuilder) {
        if event.generated {
            chunk.generated.add(day(at), &name_of(name), 1);
            return;
        }
        self.is_written = true;
        match self.before {
            EventState::Accepted => return,
            EventState::Made => chunk.made_before.add(day(at), &name_of(name), 1),
            EventState::None => {}
        }
        self.counter.add(day(at), name);
    }

    /// Day that an event is counted on; `None` for a generated event or one counted before.
    fn counted(&self, event: &Event, at: Micros) -> Option<Day> {
        (!event.generated && self.before != EventState::Accepted).then(|| day(at))
    }

    fn put(
        &mut self,
        new: NewEvent<'_>,
        at: Micros,
        chunk: &mut ChunkBuilder,
    ) -> Result<(), RecordError> {
        if new.json.len() > EVENT_BYTES_MAX {
            return Err(too_large());
        }
        let month = Month::of(at);
        let request = chunk
            .open
            .entry(month)
            .or_insert_with(|| RequestBuilder::new(self.prefix));
        let is_full = request.len() >= self.limits.request_events
            || request.bytes() + new.json.len() > self.limits.request_bytes;
        if is_full && !request.is_empty() {
            let full = std::mem::replace(request, RequestBuilder::new(self.prefix));
            chunk.full.entry(month).or_default().push(full.finish());
        }
        let (first, last) = chunk.times.unwrap_or((at, at));
        chunk.times = Some((first.min(at), last.max(at)));
        let before = request.bytes();
        request.push(new);
        chunk.bytes += request.bytes().saturating_sub(before);
        Ok(())
    }
}

fn day(at: Micros) -> Day {
    at.0.div_euclid(MICROS_PER_DAY)
}

fn too_large() -> RecordError {
    RecordError {
        code: "event_too_large",
        field: None,
        message: "The event is larger than 1 MiB. Drop what is large in it by the mapping file, or omit it."
            .to_owned(),
    }
}
