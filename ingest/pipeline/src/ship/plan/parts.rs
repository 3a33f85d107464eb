//! Inserts that are sent by halves: whose turn it is, and how many there may be.
//!
//! What ClickHouse cannot read is taken apart to the end, an insert of a table after the other, and nothing further of
//! a table is begun while many of its parts wait for that. What fails for a reason that may be the server's is taken
//! apart without proof of anything, so that few may be.

use super::flight::Flight;
use super::{Plan, UnitId};
use crate::ship::unit::Unit;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Parts in trouble from which on every second part is the oldest, which is far from the newest: that
/// rows beside a bad one are bad, too, is likely, and a part that is stored proves what is wrong with them.
const TROUBLED_NEAR: usize = 4;

/// The parts of a table's inserts.
#[derive(Debug, Default)]
struct Parts {
    /// Those that were not sent yet.
    waiting: usize,
    oldest: Option<UnitId>,
    newest: Option<UnitId>,
    /// Whether one is sent, which is not in trouble.
    is_busy: bool,
    troubled: usize,
}

impl Parts {
    fn count<S>(&mut self, id: UnitId, flight: &Flight<S>) {
        if !flight.is_launched {
            self.waiting += 1;
            self.oldest = self.oldest.or(Some(id));
            self.newest = Some(id);
        } else if flight.is_troubled {
            self.troubled += 1;
        } else {
            self.is_busy = true;
        }
    }

    /// The part that is sent next: the newest, so that one insert is taken apart to the end before the next.
    fn next(&self, parts_max: usize) -> Option<UnitId> {
        let is_far = self.troubled >= TROUBLED_NEAR && self.troubled.is_multiple_of(2);
        let next = match is_far && self.waiting < parts_max {
            true => self.oldest,
            false => self.newest,
        };
        next.filter(|_| !self.is_busy)
    }
}

impl<S> Plan<S> {
    fn parts(&self) -> BTreeMap<&str, Parts> {
        let mut tables = BTreeMap::<&str, Parts>::new();
        let parts = self.in_flight.iter();
        for (id, flight) in parts.filter(|(_, flight)| flight.unit.is_part) {
            let table = tables.entry(&*flight.unit.key.insert_target);
            table.or_default().count(*id, flight);
        }
        tables
    }

    /// Tables of which so many parts wait for their turn that nothing further is begun.
    pub(super) fn crowded(&self) -> Vec<&str> {
        let tables = self.parts().into_iter();
        let crowded = tables.filter(|(_, parts)| parts.waiting >= self.limits.parts_max);
        crowded.map(|(table, _)| table).collect()
    }

    /// The parts that are sent now, one of each table at a time.
    pub(super) fn next_parts(&self) -> Vec<UnitId> {
        let tables = self.parts().into_values();
        let next = tables.filter_map(|parts| parts.next(self.limits.parts_max));
        next.collect()
    }

    fn parts_of(&self, table: &str) -> usize {
        let parts = self.in_flight.values().filter(|it| it.unit.is_part);
        parts
            .filter(|it| *it.unit.key.insert_target == *table)
            .count()
    }
}

impl<S: Clone> Plan<S> {
    /// ClickHouse cannot read the rows of a unit: two halves take its place. False when the unit
    /// is a single row, which the caller sets aside and then reports as settled.
    pub fn refused(&mut self, id: UnitId) -> bool {
        if !self.is_out_of_turn(id) {
            return self.halve(id, false);
        }
        self.absent(id);
        self.relaunch(id, |unit| unit.is_part = true);
        true
    }

    /// ClickHouse has some of the rows of a unit and others not: two halves take its place, of which the same may
    /// be true. False when the unit is a single row.
    pub fn parted(&mut self, id: UnitId) -> bool {
        if !self.is_out_of_turn(id) {
            return self.halve(id, true);
        }
        self.relaunch(id, |unit| {
            unit.is_part = true;
            unit.in_doubt = true;
            unit.is_suspect = true;
        });
        true
    }

    /// Whether a unit is to be halved, but not now: of those in trouble many may be refused at once, as when an outage
    /// ends. They wait for their turn among the parts then.
    fn is_out_of_turn(&self, id: UnitId) -> bool {
        self.in_flight.get(&id).is_some_and(|flight| {
            let table = &flight.unit.key.insert_target;
            flight.is_troubled
                && flight.unit.halves().is_some()
                && self.parts_of(table) >= self.limits.parts_max
        })
    }

    fn halve(&mut self, id: UnitId, are_suspect: bool) -> bool {
        let halves = self
            .in_flight
            .get(&id)
            .and_then(|flight| flight.unit.halves());
        let Some(halves) = halves else { return false };
        for half in halves {
            self.sections += half.sections.len();
            self.add_flight(Unit {
                start_mark: Some(self.start_mark),
                in_doubt: half.in_doubt || are_suspect,
                is_suspect: half.is_suspect || are_suspect,
                ..half
            });
        }
        // Only now, so that `low` does not pass the rows in between.
        self.remove(id);
        true
    }

    /// Nobody knows whether the rows of a unit or the server are to blame for its failures: halves take its
    /// place, or else it is to be sent on as it is returned, until others that are stored prove it. What cannot be
    /// halved is from now on a part, so that those others need not wait for it.
    pub fn take_apart(&mut self, id: UnitId, can_halve: bool) -> Option<Arc<Unit<S>>> {
        let table = Arc::clone(&self.in_flight.get(&id)?.unit.key.insert_target);
        let has_room = self.parts_of(&table) < self.limits.parts_max;
        if can_halve && has_room && self.halve(id, false) {
            return None;
        }
        let flight = self.in_flight.get_mut(&id)?;
        flight.is_troubled = true;
        flight.is_away = false;
        let unit = Arc::make_mut(&mut flight.unit);
        unit.is_part |= has_room && !can_halve;
        unit.in_doubt = true;
        Some(Arc::clone(&flight.unit))
    }
}
