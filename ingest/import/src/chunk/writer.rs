//! Events of records into the requests of a chunk.

use super::{Cuts, Rejected, Replayed};
use crate::ids::{Ids, Place};
use crate::journal::{EventState, Known};
use crate::reject::Reject;
use crate::request::{Draft, Head, NewEvent, Request};
use crate::rules::Applier;
use crate::tallier::{Tallier, name_of};
use crate::tally::{Day, Tally};
use millrace_rows::{Micros, Month};
use millrace_sources::{Event, Events, Id, Position, RecordError};
use std::collections::BTreeMap;

/// The largest event, which is the server's limit.
const EVENT_BYTES_MAX: usize = 1 << 20;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// A chunk that is being read.
#[derive(Default)]
pub(super) struct Filling {
    /// The request of each month that takes more events.
    pub(super) open: BTreeMap<Month, Draft>,
    /// Those that are full, by month.
    pub(super) full: BTreeMap<Month, Vec<Request>>,
    pub(super) bytes: usize,
    pub(super) records: u64,
    pub(super) skipped: u64,
    pub(super) made_before: Tally,
    pub(super) generated: Tally,
    pub(super) times: Option<(Micros, Micros)>,
    pub(super) rejects: Vec<Rejected>,
    pub(super) replayed: Vec<Replayed>,
    pub(super) left_out: u64,
}

impl Filling {
    /// Takes a reject in that is replayed; how far its event got before.
    pub(super) fn replay(&mut self, reject: &Reject, known: Known, source: usize) -> EventState {
        let standing = match known {
            Known::Refused(standing) => Some(standing),
            Known::Settled | Known::New => None,
        };
        let event = standing.as_ref().map_or(EventState::None, |it| it.event);
        self.replayed.push(Replayed {
            source: u32::try_from(source).unwrap_or(u32::MAX),
            ordinal: reject.ordinal,
            standing,
        });
        event
    }
}

/// Writes the events of a record into requests.
pub(super) struct Writer<'a, 'rules> {
    pub(super) events: &'a Events,
    pub(super) applier: Option<&'a mut Applier<'rules>>,
    pub(super) ids: &'a mut Ids,
    pub(super) stem: &'a str,
    pub(super) cuts: Cuts,
    pub(super) head: &'a Head,
    pub(super) tallier: &'a mut Tallier,
    /// The place of the record's source among the chunk's.
    pub(super) source: u32,
    /// How far the record's event got before this.
    pub(super) before: EventState,
    /// Whether it was written, and so is accepted unless the server says no.
    pub(super) is_written: bool,
}

impl Writer<'_, '_> {
    /// Of several events of a record, those before one that cannot be written stay: none depends on another.
    pub(super) fn record(
        &mut self,
        at: Position,
        raw: &[u8],
        filling: &mut Filling,
    ) -> Result<(), RecordError> {
        let mut is_skipped = true;
        for (index, event) in (0..).zip(self.events.list()) {
            let uuid = match &event.id {
                Id::Own => None,
                Id::Key(range) => Some(self.ids.of_key(self.events.key(range))),
                Id::Record => {
                    let place = Place {
                        stem: self.stem,
                        ordinal: at.ordinal,
                        index,
                    };
                    Some(self.ids.of_record(raw, place))
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
            is_skipped &= !self.event(event, new, name, raw, filling)?;
        }
        filling.skipped += u64::from(is_skipped);
        Ok(())
    }

    /// Takes an event through the rules into the request of its month; whether it was kept.
    fn event(
        &mut self,
        event: &Event,
        new: NewEvent<'_>,
        name: &[u8],
        raw: &[u8],
        filling: &mut Filling,
    ) -> Result<bool, RecordError> {
        let timestamp = event.timestamp.unwrap_or_default();
        let Some(applier) = self.applier.as_mut() else {
            let new = NewEvent {
                counted: self.counted(event, timestamp),
                ..new
            };
            self.put(new, timestamp, filling)?;
            self.count(event, timestamp, name, filling);
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
        self.put(new, applied.timestamp, filling)?;
        self.count(event, applied.timestamp, name, filling);
        Ok(true)
    }

    /// How far the record's event got now, if the server takes what it is sent.
    pub(super) fn reached(&self) -> EventState {
        if self.is_written {
            EventState::Accepted
        } else {
            self.before
        }
    }

    fn count(&mut self, event: &Event, at: Micros, name: &[u8], filling: &mut Filling) {
        if event.generated {
            filling.generated.add(day(at), &name_of(name), 1);
            return;
        }
        self.is_written = true;
        match self.before {
            EventState::Accepted => return,
            EventState::Made => filling.made_before.add(day(at), &name_of(name), 1),
            EventState::None => {}
        }
        self.tallier.add(day(at), name);
    }

    /// The day that an event is counted on, unless it was before.
    fn counted(&self, event: &Event, at: Micros) -> Option<Day> {
        (!event.generated && self.before != EventState::Accepted).then(|| day(at))
    }

    fn put(
        &mut self,
        new: NewEvent<'_>,
        at: Micros,
        filling: &mut Filling,
    ) -> Result<(), RecordError> {
        if new.json.len() > EVENT_BYTES_MAX {
            return Err(too_large());
        }
        let month = Month::of(at);
        let draft = filling
            .open
            .entry(month)
            .or_insert_with(|| Draft::new(self.head));
        let is_full = draft.len() >= self.cuts.request_events
            || draft.bytes() + new.json.len() > self.cuts.request_bytes;
        if is_full && !draft.is_empty() {
            let full = std::mem::replace(draft, Draft::new(self.head));
            filling.full.entry(month).or_default().push(full.finish());
        }
        let (first, last) = filling.times.unwrap_or((at, at));
        filling.times = Some((first.min(at), last.max(at)));
        let before = draft.bytes();
        draft.push(new);
        filling.bytes += draft.bytes().saturating_sub(before);
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
        message: "The event is larger than 1 MiB. Drop what is large in it by the mapping file, or leave it out."
            .to_owned(),
    }
}
