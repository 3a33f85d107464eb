//! Parts of halved inserts: their order and their number.
//!
//! Rows that ClickHouse cannot read are halved to the end, one insert of a table after the other,
//! and nothing further of a table is begun while many of its parts wait for that. An insert that
//! fails for a reason that may be the server's is halved without proof of anything, so its parts
//! must stay few.

use super::in_flight::InFlight;
use super::{BatchId, Plan};
use crate::ship::insert_batch::InsertBatch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of failing parts from which on every second part sent is the oldest, far from the newest:
/// rows beside a bad one are likely bad, too, and a part that is stored proves that the others are
/// to blame.
const FAILING_NEAR: usize = 4;

/// The parts of a table's inserts.
#[derive(Debug, Default)]
struct TableParts {
    /// Number of parts that were not sent yet.
    waiting: usize,
    oldest: Option<BatchId>,
    newest: Option<BatchId>,
    /// True if a part is sent that is not failing.
    is_busy: bool,
    failing: usize,
}

impl TableParts {
    fn count<S>(&mut self, id: BatchId, in_flight: &InFlight<S>) {
        if !in_flight.is_launched {
            self.waiting += 1;
            self.oldest = self.oldest.or(Some(id));
            self.newest = Some(id);
        } else if in_flight.is_failing {
            self.failing += 1;
        } else {
            self.is_busy = true;
        }
    }

    /// Returns the part to send next: the newest, so that one insert is halved to the end before
    /// the next.
    fn next(&self, parts_max: usize) -> Option<BatchId> {
        let is_far = self.failing >= FAILING_NEAR && self.failing.is_multiple_of(2);
        let next = match is_far && self.waiting < parts_max {
            true => self.oldest,
            false => self.newest,
        };
        next.filter(|_| !self.is_busy)
    }
}

impl<S> Plan<S> {
    fn parts(&self) -> BTreeMap<&str, TableParts> {
        let mut tables = BTreeMap::<&str, TableParts>::new();
        let parts = self.in_flight.iter();
        for (id, in_flight) in parts.filter(|(_, in_flight)| in_flight.batch.is_part) {
            let table = tables.entry(&*in_flight.batch.key.insert_target);
            table.or_default().count(*id, in_flight);
        }
        tables
    }

    /// Tables that have so many parts to send that nothing further of them is begun.
    pub(super) fn crowded_tables(&self) -> Vec<&str> {
        let tables = self.parts().into_iter();
        let crowded = tables.filter(|(_, parts)| parts.waiting >= self.limits.parts_max);
        crowded.map(|(table, _)| table).collect()
    }

    /// Parts that are sent now, one of each table at a time.
    pub(super) fn next_parts(&self) -> Vec<BatchId> {
        let tables = self.parts().into_values();
        let next = tables.filter_map(|parts| parts.next(self.limits.parts_max));
        next.collect()
    }

    fn parts_of(&self, table: &str) -> usize {
        let parts = self.in_flight.values().filter(|it| it.batch.is_part);
        parts
            .filter(|it| *it.batch.key.insert_target == *table)
            .count()
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

    /// Returns true if a batch is to be halved, but not now: many failing batches may be refused at
    /// once, as when an outage ends. They wait among the parts then.
    fn must_wait(&self, id: BatchId) -> bool {
        self.in_flight.get(&id).is_some_and(|in_flight| {
            let table = &in_flight.batch.key.insert_target;
            in_flight.is_failing
                && in_flight.batch.halves().is_some()
                && self.parts_of(table) >= self.limits.parts_max
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

    /// Halves a batch that fails for its rows or for the server; if it cannot be halved, returns it
    /// to be sent on until other stored inserts prove its rows bad. A batch that cannot be halved
    /// is a part from now on, so that the others need not wait for it.
    pub fn take_apart(&mut self, id: BatchId, can_halve: bool) -> Option<Arc<InsertBatch<S>>> {
        let table = Arc::clone(&self.in_flight.get(&id)?.batch.key.insert_target);
        let has_capacity = self.parts_of(&table) < self.limits.parts_max;
        if can_halve && has_capacity && self.halve(id, false) {
            return None;
        }
        let in_flight = self.in_flight.get_mut(&id)?;
        in_flight.is_failing = true;
        in_flight.is_unreachable = false;
        let batch = Arc::make_mut(&mut in_flight.batch);
        batch.is_part |= has_capacity && !can_halve;
        batch.in_doubt = true;
        Some(Arc::clone(&in_flight.batch))
    }
}
