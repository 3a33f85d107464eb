//! Parts of halved batches: their order and their number.
//!
//! Rows that ClickHouse cannot read are halved to the end, one batch of a table after the other,
//! and nothing further of a table is begun while many of its parts wait for that. A row that is
//! left of a batch that fails for its rows or for the server goes on failing until others are
//! stored, which proves it bad. While many such rows wait for proof, other parts wait, too, except
//! for a search: once in a while one path is followed down to a row, of a batch that was kept
//! whole so far, or else far from the last row, so that rows are found that can be stored.

use super::in_flight::InFlight;
use super::{BatchId, Plan};
use crate::ship::insert_batch::InsertBatch;
use crate::ship::retries::DeliveryStage;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Number of parts that cannot be halved, one after the other, from which on the next part sent is
/// far from them: rows beside a bad one are likely bad, too.
const BAD_NEAR: u32 = 4;
/// Interval from the last part that cannot be halved to the next search: as long as such a part
/// waits from one try to the next.
const SEARCH_EVERY: Duration = Duration::from_secs(20);
/// Time for which a search among parts waits longer while a batch is kept whole, which is
/// searched first: it is returned within a minute, unless its failures differ.
const KEPT_FIRST: Duration = Duration::from_secs(100);
/// Number of failing parts up to which rows are searched for, as a multiple of
/// [`Limits::parts_max`](crate::ship::limits::Limits::parts_max).
const SEARCH_TIMES: usize = 2;
/// Number of parts that may wait while others wait for proof, as the same multiple.
const PARTS_MAX_FACTOR: usize = 4;

/// History of a table's parts.
#[derive(Debug, Default)]
pub(super) struct TableHistory {
    /// Time of the last part that cannot be halved.
    bad_at: Duration,
    /// Number of such parts since a batch of the table was settled.
    bad: u32,
    /// True if the last part that was sent is one.
    is_bad: bool,
}

impl TableHistory {
    pub(super) fn settled(&mut self) {
        self.bad = 0;
    }

    pub(super) fn launched(&mut self) {
        self.is_bad = false;
    }

    fn found_bad(&mut self, now: Duration) {
        self.bad_at = now;
        self.bad = self.bad.saturating_add(1);
        self.is_bad = true;
    }

    fn is_far_next(&self) -> bool {
        self.is_bad && self.bad >= BAD_NEAR
    }
}

/// The parts of a table's batches.
#[derive(Debug, Default)]
struct TableParts {
    /// Parts that were not sent yet, the oldest first.
    waiting: Vec<BatchId>,
    /// True if a part is sent that is not failing.
    is_busy: bool,
    failing: usize,
    /// True if a batch of the table is kept whole.
    is_one_kept: bool,
}

impl TableParts {
    fn count<S>(&mut self, id: BatchId, in_flight: &InFlight<S>) {
        if !in_flight.batch.is_part {
            self.is_one_kept |= in_flight.is_kept_whole;
        } else if !in_flight.is_launched {
            self.waiting.push(id);
        } else if in_flight.is_failing {
            self.failing += 1;
        } else {
            self.is_busy = true;
        }
    }

    fn all(&self) -> usize {
        self.waiting.len() + self.failing + usize::from(self.is_busy)
    }
}

impl<S> Plan<S> {
    fn parts(&self) -> BTreeMap<&str, TableParts> {
        let mut tables = BTreeMap::<&str, TableParts>::new();
        for (id, in_flight) in &self.in_flight {
            let table = tables.entry(&*in_flight.batch.key.insert_target);
            table.or_default().count(*id, in_flight);
        }
        tables
    }

    fn parts_of(&self, table: &str) -> TableParts {
        self.parts().remove(table).unwrap_or_default()
    }

    /// Tables that have so many parts to send that nothing further of them is begun. More are
    /// allowed where parts wait for proof: it may have to come from the batches that follow.
    pub(super) fn tables_with_many_parts(&self) -> Vec<&str> {
        let parts_max = self.limits.parts_max;
        let held_back = self.parts().into_iter().filter(|(_, parts)| {
            let waiting_max = match parts.failing < parts_max {
                true => parts_max,
                false => PARTS_MAX_FACTOR * parts_max,
            };
            parts.waiting.len() >= waiting_max
        });
        held_back.map(|(table, _)| table).collect()
    }

    /// Parts that are sent now, one of each table at a time.
    pub(super) fn next_parts(&self, now: Duration) -> Vec<BatchId> {
        let tables = self.parts().into_iter();
        let due = tables.filter(|(table, parts)| {
            let due = self.part_due(table, parts);
            due.is_some_and(|due| due <= now)
        });
        due.filter_map(|(table, parts)| self.next_part(table, &parts))
            .collect()
    }

    /// Time at which the next part falls due; `None` if all wait for events.
    pub(super) fn parts_due(&self) -> Option<Duration> {
        let tables = self.parts().into_iter();
        let dues = tables.filter_map(|(table, parts)| self.part_due(table, &parts));
        dues.min()
    }

    fn part_due(&self, table: &str, parts: &TableParts) -> Option<Duration> {
        if parts.is_busy || parts.waiting.is_empty() {
            return None;
        }
        match parts.failing {
            few if few < self.limits.parts_max => Some(Duration::ZERO),
            some if some < self.search_max() => Some(match parts.is_one_kept {
                true => self.search_at(table) + KEPT_FIRST,
                false => self.search_at(table),
            }),
            _ => None,
        }
    }

    /// Time of the next search in a table with many failing parts.
    fn search_at(&self, table: &str) -> Duration {
        let history = self.history.get(table);
        history.map_or(Duration::ZERO, |it| it.bad_at) + SEARCH_EVERY
    }

    const fn search_max(&self) -> usize {
        SEARCH_TIMES * self.limits.parts_max
    }

    /// Returns the part to send next: the newest, so that one batch is halved to the end before
    /// the next; or the largest, to get away from bad rows, unless many wait already.
    fn next_part(&self, table: &str, parts: &TableParts) -> Option<BatchId> {
        let is_far = self
            .history
            .get(table)
            .is_some_and(TableHistory::is_far_next);
        if !is_far || parts.waiting.len() >= self.search_max() {
            return parts.waiting.last().copied();
        }
        let rows = |id| self.in_flight.get(id).map(|it| it.batch.rows());
        let oldest_last = parts.waiting.iter().rev();
        oldest_last.max_by_key(|id| rows(id)).copied()
    }
}

impl<S: Clone> Plan<S> {
    /// Halves a batch whose rows ClickHouse cannot read, or relaunches it as a part to be halved
    /// later. False when it is a single row, which the caller dead-letters and then reports as
    /// settled.
    pub fn refused(&mut self, id: BatchId) -> bool {
        if !self.must_wait(id) {
            return self.halve(id, false);
        }
        self.absent(id);
        self.relaunch(id, |batch| batch.is_part = true);
        true
    }

    /// Halves a batch of which ClickHouse has some rows and others not, or relaunches it as a part
    /// to be halved later; the same may be true of the halves. False when it is a single row.
    pub fn parted(&mut self, id: BatchId) -> bool {
        if !self.must_wait(id) {
            return self.halve(id, true);
        }
        self.relaunch(id, |batch| {
            batch.is_part = true;
            batch.in_doubt = true;
            batch.is_suspect = true;
        });
        true
    }

    /// Halves a batch of which not all rows can be read, or relaunches it as a part to be halved
    /// later. One of which each row may be stored stays in doubt: on shards its other rows may be.
    /// False when it is a single row.
    pub fn lost(&mut self, id: BatchId) -> bool {
        let is_suspect = self
            .in_flight
            .get(&id)
            .is_some_and(|it| it.batch.is_suspect);
        match is_suspect {
            true => self.parted(id),
            false => self.refused(id),
        }
    }

    /// Returns true if a batch is to be halved, but not now: many failing batches may be refused at
    /// once, as when an outage ends. They wait among the parts then, behind the newest.
    fn must_wait(&self, id: BatchId) -> bool {
        let in_flight = self.in_flight.get(&id).filter(|it| it.is_failing);
        in_flight.is_some_and(|in_flight| {
            let parts = self.parts_of(&in_flight.batch.key.insert_target);
            parts.all() >= self.limits.parts_max
                && parts.waiting.last().is_some_and(|newest| *newest > id)
                && in_flight.batch.halves().is_some()
        })
    }

    fn halve(&mut self, id: BatchId, are_suspect: bool) -> bool {
        let halves = self
            .in_flight
            .get(&id)
            .and_then(|in_flight| in_flight.batch.halves());
        let Some(halves) = halves else { return false };
        for half in halves {
            self.sections += half.sections.len();
            self.add_in_flight(InsertBatch {
                start_mark: Some(self.start_mark),
                in_doubt: half.in_doubt || are_suspect,
                is_suspect: half.is_suspect || are_suspect,
                ..half
            });
        }
        // Removed last, so that `low` never passes the rows.
        self.remove(id);
        true
    }

    /// Halves a batch that fails for its rows or for the server; if it is not halved, returns it to
    /// be sent on. A batch that cannot be halved is a part from now on, so that the others, which
    /// may prove its rows bad, need not wait for it.
    pub fn take_apart(
        &mut self,
        id: BatchId,
        can_halve: bool,
        now: Duration,
    ) -> Option<(Arc<InsertBatch<S>>, DeliveryStage)> {
        let may_be_part = self.may_be_part(id, now);
        if can_halve && may_be_part && self.halve(id, false) {
            return None;
        }
        let in_flight = self.in_flight.get_mut(&id)?;
        in_flight.is_failing = true;
        in_flight.is_unreachable = false;
        let batch = Arc::make_mut(&mut in_flight.batch);
        batch.is_part |= may_be_part;
        batch.in_doubt = true;
        in_flight.is_kept_whole = !batch.is_part;
        let batch = Arc::clone(&in_flight.batch);
        if in_flight.is_kept_whole {
            return Some((batch, DeliveryStage::KeptWhole));
        }
        let table = Arc::clone(&batch.key.insert_target);
        self.history.entry(table).or_default().found_bad(now);
        Some((batch, DeliveryStage::LastPart))
    }

    /// Returns true if a batch may be halved although nothing proves its rows bad: a part always; a
    /// whole batch only if its table has few parts, since an outage may look like bad rows, or for
    /// a search.
    fn may_be_part(&self, id: BatchId, now: Duration) -> bool {
        let Some(in_flight) = self.in_flight.get(&id) else {
            return false;
        };
        let table = &*in_flight.batch.key.insert_target;
        let parts = self.parts_of(table);
        let searches = parts.failing < self.search_max() && now >= self.search_at(table);
        in_flight.batch.is_part || parts.all() < self.limits.parts_max || searches
    }
}
