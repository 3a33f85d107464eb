//! Inserts that are sent by halves: whose turn it is, and how many there may be.
//!
//! An insert of a table is taken apart after the other, down to the rows that are refused; nothing further of the table
//! is begun while many of its parts wait for that. Where the refusal may be the server's, a row that is left stays in
//! trouble until rows beside it are stored, which proves what is wrong with it. Many such rows are a reason to wait for
//! that. Where none are stored any more, as all that were tried have bad rows, others are searched for: one path down to a
//! row at a time, of an insert that was kept whole so far, or else far from where the last one ended.

use super::flight::Flight;
use super::{Plan, UnitId};
use crate::ship::retries::Standing;
use crate::ship::unit::Unit;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Parts that cannot be halved any more, one after the other, from which on the next is looked for far from them: that
/// rows beside a bad one are bad, too, is likely.
const BAD_NEAR: u32 = 4;
/// From the last row that was found bad to the next search for some that can be stored: as long as a row
/// in trouble waits from one try to the next.
const SEARCH_EVERY: Duration = Duration::from_secs(20);
/// Parts in trouble up to which that goes on, as a multiple of those up to which further ones are sent otherwise.
const SEARCH_TIMES: usize = 2;
/// The same of parts that wait for such a search.
const CROWD_TIMES: usize = 4;

/// What happens to the parts of a table.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// When a row was found bad last.
    bad_at: Duration,
    /// How many were since one was settled.
    bad: u32,
    /// Whether one was the last that was sent.
    is_bad: bool,
}

impl Progress {
    pub(super) fn settled(&mut self) {
        self.bad = 0;
    }

    fn found_bad(&mut self, now: Duration) {
        self.bad_at = now;
        self.bad = self.bad.saturating_add(1);
        self.is_bad = true;
    }

    pub(super) fn sent(&mut self) {
        self.is_bad = false;
    }

    fn is_far(&self) -> bool {
        self.is_bad && self.bad >= BAD_NEAR
    }
}

/// The parts of a table's inserts.
#[derive(Debug, Default)]
struct Parts {
    /// Those that were not sent yet, the oldest first.
    waiting: Vec<UnitId>,
    /// Whether one is sent, which is not in trouble.
    is_busy: bool,
    troubled: usize,
    /// Whether an insert is kept whole as there are so many.
    is_kept: bool,
}

impl Parts {
    fn count<S>(&mut self, id: UnitId, flight: &Flight<S>) {
        if !flight.unit.is_part {
            self.is_kept |= flight.is_kept;
        } else if !flight.is_launched {
            self.waiting.push(id);
        } else if flight.is_troubled {
            self.troubled += 1;
        } else {
            self.is_busy = true;
        }
    }

    fn all(&self) -> usize {
        self.waiting.len() + self.troubled + usize::from(self.is_busy)
    }
}

impl<S> Plan<S> {
    fn parts(&self) -> BTreeMap<&str, Parts> {
        let mut tables = BTreeMap::<&str, Parts>::new();
        for (id, flight) in &self.in_flight {
            let table = tables.entry(&*flight.unit.key.insert_target);
            table.or_default().count(*id, flight);
        }
        tables
    }

    fn parts_of(&self, table: &str) -> Parts {
        self.parts().remove(table).unwrap_or_default()
    }

    /// Tables of which so many parts wait for their turn that nothing further is begun. It has to go on longer where they
    /// wait for rows that are stored, as those that come next may be.
    pub(super) fn crowded(&self) -> Vec<&str> {
        let parts_max = self.limits.parts_max;
        let crowded = self.parts().into_iter().filter(|(_, parts)| {
            let waiting_max = match parts.troubled < parts_max {
                true => parts_max,
                false => CROWD_TIMES * parts_max,
            };
            parts.waiting.len() >= waiting_max
        });
        crowded.map(|(table, _)| table).collect()
    }

    /// The parts that are sent now, one of each table at a time.
    pub(super) fn next_parts(&self, now: Duration) -> Vec<UnitId> {
        let tables = self.parts().into_iter();
        let due = tables.filter(|(table, parts)| {
            let due = self.part_due(table, parts);
            due.is_some_and(|due| due <= now)
        });
        due.filter_map(|(table, parts)| self.next_part(table, &parts))
            .collect()
    }

    /// When the next part is sent that waits for others of its table.
    pub(super) fn parts_due(&self) -> Option<Duration> {
        let tables = self.parts().into_iter();
        let dues = tables.filter_map(|(table, parts)| self.part_due(table, &parts));
        dues.min()
    }

    fn part_due(&self, table: &str, parts: &Parts) -> Option<Duration> {
        if parts.is_busy || parts.waiting.is_empty() {
            return None;
        }
        match parts.troubled {
            few if few < self.limits.parts_max => Some(Duration::ZERO),
            some if some < self.search_max() && !parts.is_kept => Some(self.search_at(table)),
            _ => None,
        }
    }

    /// When the next search begins in a table with many parts.
    fn search_at(&self, table: &str) -> Duration {
        let progress = self.progress.get(table);
        progress.map_or(Duration::ZERO, |it| it.bad_at) + SEARCH_EVERY
    }

    fn search_max(&self) -> usize {
        SEARCH_TIMES * self.limits.parts_max
    }

    /// The newest, so that one insert is taken apart to the end before the next; or the largest, to get away from bad
    /// rows, unless many wait already.
    fn next_part(&self, table: &str, parts: &Parts) -> Option<UnitId> {
        let is_far = self.progress.get(table).is_some_and(Progress::is_far);
        if !is_far || parts.waiting.len() >= self.search_max() {
            return parts.waiting.last().copied();
        }
        let rows = |id| self.in_flight.get(id).map(|flight| flight.unit.rows());
        parts
            .waiting
            .iter()
            .rev()
            .max_by_key(|id| rows(id))
            .copied()
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
    /// ends. They wait for their turn among the parts then, behind the newest.
    fn is_out_of_turn(&self, id: UnitId) -> bool {
        let flight = self.in_flight.get(&id).filter(|it| it.is_troubled);
        flight.is_some_and(|flight| {
            let parts = self.parts_of(&flight.unit.key.insert_target);
            parts.all() >= self.limits.parts_max
                && parts.waiting.last().is_some_and(|newest| *newest > id)
                && flight.unit.halves().is_some()
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
    /// place, or else it is to be sent on as it is returned. What cannot be halved is from now on a part, so that
    /// those others that may prove something need not wait for it.
    pub fn take_apart(
        &mut self,
        id: UnitId,
        can_halve: bool,
        now: Duration,
    ) -> Option<(Arc<Unit<S>>, Standing)> {
        let may_be_part = self.may_be_part(id, now);
        if can_halve && may_be_part && self.halve(id, false) {
            return None;
        }
        let flight = self.in_flight.get_mut(&id)?;
        flight.is_troubled = true;
        flight.is_away = false;
        let unit = Arc::make_mut(&mut flight.unit);
        unit.is_part |= may_be_part;
        unit.in_doubt = true;
        flight.is_kept = !unit.is_part;
        let unit = Arc::clone(&flight.unit);
        if flight.is_kept {
            return Some((unit, Standing::Kept));
        }
        let table = Arc::clone(&unit.key.insert_target);
        self.progress.entry(table).or_default().found_bad(now);
        Some((unit, Standing::Last))
    }

    /// Whether parts may be made of a unit though nothing proves that its rows are to blame: of a whole one only if
    /// its table has few, so that an outage that looks like bad rows takes few apart; or for a search.
    fn may_be_part(&self, id: UnitId, now: Duration) -> bool {
        let Some(flight) = self.in_flight.get(&id) else {
            return false;
        };
        let table = &*flight.unit.key.insert_target;
        let parts = self.parts_of(table);
        let searches = parts.troubled < self.search_max() && now >= self.search_at(table);
        flight.unit.is_part || parts.all() < self.limits.parts_max || searches
    }
}
