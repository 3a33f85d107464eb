//! Which rows go into which insert, and what must be remembered of it: pure, no I/O, no clock.
//!
//! ```text
//! gather: waiting ──take──> in flight ──settled──> (gone)
//!                              │  ▲
//!         refused, parted: halves └─ absent: next attempt
//! ```
//!
//! Invariants:
//! - every section from `low` on is waiting, in flight, or settled; it is never in two of them;
//! - sections of a key are taken in the order of the log, hence one place per key tells which
//!   were taken;
//! - `low` passes a section only when it is settled.

mod early;
mod flight;
mod parts;
mod recovery;
#[cfg(test)]
mod tests;
mod waiting;

use super::limits::Limits;
use super::section::{Key, Place, Section};
use early::Early;
use flight::Flight;
use millrace_log::Position;
use millrace_rows::{Micros, Month};
use parts::Progress;
use recovery::Recovering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use waiting::Waiting;

/// Room for sections that wait for inserts in trouble, as a multiple of the room that there is otherwise: at
/// a hundred commits a second they last for an hour and a half, and take some 150 MB.
const BLOCKED_TIMES: usize = 8;

/// Names a unit in flight, within one process.
pub type UnitId = u64;

/// The plan of a lane.
#[derive(Debug)]
pub struct Plan<S> {
    limits: Limits,
    salt: u32,
    /// Tells this start from all others, also of copies of the folder, which have its salt.
    start_mark: u32,
    waiting: BTreeMap<Key, Waiting<S>>,
    in_flight: BTreeMap<UnitId, Flight<S>>,
    /// Ranges of the last checkpoint whose sections have not all been read again.
    recovering: Vec<Recovering<S>>,
    taken: BTreeMap<Key, Place>,
    early: Early,
    read_to: Position,
    /// Sections below this are suspects, see [`Section::is_suspect`].
    suspect_below: Position,
    next_id: UnitId,
    sections: usize,
    /// By table.
    progress: BTreeMap<Arc<str>, Progress>,
    is_changed: bool,
}

/// The time, as the plan needs it.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Since the shipper started.
    pub elapsed: Duration,
    /// The earliest month that counts as recent.
    pub recent: Month,
    /// Send whatever waits: the process is about to end.
    pub is_draining: bool,
}

// === impl Plan: from the log ===

impl<S: Clone> Plan<S> {
    /// A lane without a checkpoint. Frames between `start` and `suspect_below` may have been
    /// shipped before the checkpoint was lost.
    pub fn new(
        limits: Limits,
        salt: u32,
        start_mark: u32,
        start: Position,
        suspect_below: Position,
    ) -> Self {
        Self {
            limits,
            salt,
            start_mark,
            waiting: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            recovering: Vec::new(),
            taken: BTreeMap::new(),
            early: Early::default(),
            read_to: start,
            suspect_below,
            next_id: 0,
            sections: 0,
            progress: BTreeMap::new(),
            is_changed: true,
        }
    }

    /// Where the log is to be read on.
    pub fn read_to(&self) -> Position {
        self.read_to
    }

    /// Whether there is room for more sections. What waits for an insert in trouble has room of its own, so that the
    /// log is read on; while nobody can be reached there is no use in that. To the end of what was under way before this start it is read in any case: nothing of it can be sent earlier, and the process before
    /// had it all in memory.
    pub fn has_room(&self) -> bool {
        let all_max = self.limits.sections_max.saturating_mul(BLOCKED_TIMES);
        let others = || self.sections.saturating_sub(self.blocked_sections());
        !self.recovering.is_empty()
            || self.sections < self.limits.sections_max
            || (self.sections < all_max && others() < self.limits.sections_max)
    }

    /// Takes in the sections of the next frame, which ends at `end`.
    pub fn gather(
        &mut self,
        end: Position,
        sections: impl IntoIterator<Item = (Key, Section<S>)>,
        now: Duration,
    ) {
        for (key, section) in sections {
            self.gather_section(key, section, now);
        }
        self.read_to = end;
        self.finish_recovering();
        self.is_changed = true;
    }

    /// The log was read to its end, which is at `end` or beyond: what lies between the last frame and
    /// there holds none, as a segment that was made and not written to.
    pub fn reached(&mut self, end: Position) {
        if self.read_to < end {
            self.read_to = end;
            self.finish_recovering();
            self.is_changed = true;
        }
    }

    fn gather_section(&mut self, key: Key, mut section: Section<S>, now: Duration) {
        let place = section.place;
        let mut is_recovered = false;
        for it in &mut self.recovering {
            if it.range.key == key && it.range.first <= place && place <= it.range.last {
                it.sections.push(section.clone());
                self.sections += 1;
                is_recovered = true;
            }
        }
        let is_taken = self.taken.get(&key).is_some_and(|taken| place <= *taken);
        if is_recovered || is_taken || section.rows == 0 {
            return;
        }
        section.is_suspect = place.frame < self.suspect_below;
        self.sections += 1;
        self.waiting.entry(key).or_default().push(section, now);
    }
}

// === impl Plan: what the shipper asks ===

impl<S> Plan<S> {
    /// Everything below is in ClickHouse.
    pub fn low(&self) -> Position {
        let waiting = self.waiting.values().filter_map(Waiting::first);
        let flights = self.in_flight.values().map(|it| it.unit.ends.first);
        let recovering = self.recovering.iter().map(|it| it.range.first);
        let places = waiting.chain(flights).chain(recovering);
        places
            .map(|place| place.frame)
            .fold(self.read_to, Position::min)
    }

    /// Whether the checkpoint changed since the last call.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// The checkpoint could not be stored.
    pub fn mark_changed(&mut self) {
        self.is_changed = true;
    }

    /// The salt of the tokens.
    pub fn salt(&self) -> u32 {
        self.salt
    }

    /// Whether every section that was read is settled.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty() && self.recovering.is_empty()
    }

    /// When the oldest row that is not settled was received, of those that were read.
    pub fn oldest_received(&self) -> Option<Micros> {
        let waiting = self
            .waiting
            .values()
            .filter_map(|waiting| waiting.sections.front())
            .map(|(_, section)| section);
        let flights = self
            .in_flight
            .values()
            .filter_map(|flight| flight.unit.sections.first());
        let recovering = self.recovering.iter();
        let recovering = recovering.filter_map(|it| it.sections.first());
        let sections = waiting.chain(flights).chain(recovering);
        let keys = sections.filter_map(|it| it.keys.first());
        keys.map(|key| key.received_at).min()
    }
}
