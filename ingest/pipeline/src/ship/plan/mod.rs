//! The plan of a lane assigns rows to batches, and keeps the state that must survive a restart:
//! pure, no I/O, no clock.
//!
//! ```text
//! gather: waiting ──take──> in flight ──settled──> (gone)
//!                              │  ▲
//!         refused, parted: halves └─ absent, incomplete: next attempt
//! ```
//!
//! Invariants:
//! - every section from `low` on is waiting, in flight, or settled; it is never in two of them;
//! - sections of a key are taken in the order of the log, hence one position per key tells which
//!   were taken;
//! - `low` passes a section only when it is settled.

mod early_sends;
mod in_flight;
mod parts;
mod permits;
mod recovery;
#[cfg(test)]
mod tests;
mod waiting;

use super::limits::Limits;
use super::section::{InsertKey, Section, SectionPosition};
use early_sends::EarlySends;
use in_flight::InFlight;
use millrace_log::Position;
use millrace_rows::{Micros, Month, Table};
use parts::TableHistory;
use recovery::RecoveringBatch;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use waiting::WaitingSections;

/// Capacity for sections that wait for failing batches, as a multiple of [`Limits::sections_max`]:
/// at a hundred commits a second it lasts for an hour and a half, and takes some 150 MB.
const BLOCKED_TIMES: usize = 8;

/// Id of a batch in flight, within one process.
pub type BatchId = u64;

/// The plan of a lane.
#[derive(Debug)]
pub struct Plan<S> {
    limits: Limits,
    salt: u32,
    /// Random number that tells this start from all others, also of copies of the folder, which
    /// have its salt.
    start_mark: u32,
    waiting: BTreeMap<InsertKey, WaitingSections<S>>,
    in_flight: BTreeMap<BatchId, InFlight<S>>,
    /// Batches of the last checkpoint whose sections have not all been read again.
    recovering: Vec<RecoveringBatch<S>>,
    taken: BTreeMap<InsertKey, SectionPosition>,
    early_sends: EarlySends,
    /// Position below which person updates are sent without waiting for more.
    updates_wanted: Position,
    read_to: Position,
    /// Position below which sections are suspect, see [`Section::is_suspect`].
    suspect_below: Position,
    next_id: BatchId,
    sections: usize,
    /// History of parts, by table.
    history: BTreeMap<Arc<str>, TableHistory>,
    is_changed: bool,
}

/// Time as the plan needs it.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Time since the shipper started.
    pub elapsed: Duration,
    /// Earliest month that counts as recent.
    pub recent: Month,
    /// True when all that waits is to be sent: the process is about to end.
    pub is_draining: bool,
}

// === impl Plan: from the log ===

impl<S: Clone> Plan<S> {
    /// The plan of a lane without a checkpoint. Frames between `start` and `suspect_below` may have
    /// been shipped before the checkpoint was lost.
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
            early_sends: EarlySends::default(),
            updates_wanted: start,
            read_to: start,
            suspect_below,
            next_id: 0,
            sections: 0,
            history: BTreeMap::new(),
            is_changed: true,
        }
    }

    /// Position from which the log is to be read on.
    pub fn read_to(&self) -> Position {
        self.read_to
    }

    /// Returns true if there is capacity for more sections. Sections that wait for a failing batch
    /// have a capacity of their own, so that the log is read on; while nobody can be reached that
    /// would be of no use. The log is always read to the end of the batches of the last checkpoint:
    /// none of them can be sent earlier, and the process before had all of them in memory.
    pub fn has_capacity(&self) -> bool {
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
        sections: impl IntoIterator<Item = (InsertKey, Section<S>)>,
        now: Duration,
    ) {
        for (key, section) in sections {
            self.gather_section(key, section, now);
        }
        self.read_to = end;
        self.finish_recovering();
        self.is_changed = true;
    }

    /// Records that the log was read to its end, which is at `end` or beyond: between the last
    /// frame and `end` there is none, as in a segment that was made and not written to.
    pub fn reached(&mut self, end: Position) {
        if self.read_to < end {
            self.read_to = end;
            self.finish_recovering();
            self.is_changed = true;
        }
    }

    /// Has person updates below a position sent as soon as they are read: somebody waits for them.
    pub fn want_updates(&mut self, below: Position) {
        self.updates_wanted = self.updates_wanted.max(below);
    }

    fn gather_section(&mut self, key: InsertKey, mut section: Section<S>, now: Duration) {
        let position = section.position;
        let mut is_recovered = false;
        for it in &mut self.recovering {
            if it.recorded.key == key
                && it.recorded.first <= position
                && position <= it.recorded.last
            {
                it.sections.push(section.clone());
                self.sections += 1;
                is_recovered = true;
            }
        }
        let is_taken = self.taken.get(&key).is_some_and(|taken| position <= *taken);
        if is_recovered || is_taken || section.rows == 0 {
            return;
        }
        section.is_suspect = position.frame < self.suspect_below;
        self.sections += 1;
        self.waiting.entry(key).or_default().push(section, now);
    }
}

// === impl Plan: what the shipper asks ===

impl<S> Plan<S> {
    /// Position below which everything is in ClickHouse.
    pub fn low(&self) -> Position {
        self.low_where(|_| true)
    }

    /// Position below which everything of one table is in ClickHouse.
    pub fn low_of(&self, table: Table) -> Position {
        self.low_where(|key| key.table() == Some(table))
    }

    fn low_where(&self, counts: impl Fn(&InsertKey) -> bool) -> Position {
        let waiting = self.waiting.iter().filter(|(key, _)| counts(key));
        let waiting = waiting.filter_map(|(_, waiting)| waiting.first());
        let in_flight = self.in_flight.values().map(|it| &it.batch);
        let in_flight = in_flight.filter(|batch| counts(&batch.key));
        let in_flight = in_flight.map(|batch| batch.span.first);
        let recovering = self.recovering.iter().map(|it| &it.recorded);
        let recovering = recovering.filter(|recorded| counts(&recorded.key));
        let recovering = recovering.map(|recorded| recorded.first);
        let positions = waiting.chain(in_flight).chain(recovering);
        positions
            .map(|position| position.frame)
            .fold(self.read_to, Position::min)
    }

    /// Returns true if the checkpoint changed since the last call.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Marks the checkpoint as changed again, since it could not be stored.
    pub fn mark_changed(&mut self) {
        self.is_changed = true;
    }

    /// Salt of the tokens.
    pub fn salt(&self) -> u32 {
        self.salt
    }

    /// Returns true if every section that was read is settled.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty() && self.recovering.is_empty()
    }

    /// Time of receipt of the oldest row that was read and is not settled.
    pub fn oldest_received(&self) -> Option<Micros> {
        let waiting = self
            .waiting
            .values()
            .filter_map(|waiting| waiting.sections.front())
            .map(|(_, section)| section);
        let in_flight = self
            .in_flight
            .values()
            .filter_map(|in_flight| in_flight.batch.sections.first());
        let recovering = self.recovering.iter();
        let recovering = recovering.filter_map(|it| it.sections.first());
        let sections = waiting.chain(in_flight).chain(recovering);
        let keys = sections.filter_map(|it| it.keys.first());
        keys.map(|key| key.received_at).min()
    }
}
