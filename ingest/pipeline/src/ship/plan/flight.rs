//! What is in an insert, until it is settled.

use super::{Now, Plan, UnitId};
use crate::ship::section::Key;
use crate::ship::unit::Unit;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

/// Parts of a table's inserts up to which further ones are taken apart without proof that their rows
/// are to blame: in an outage that nobody can tell from bad rows, a table has so many and no more.
const PARTS_MAX: usize = 128;
/// Parts of a table in trouble up to which further ones are sent.
const TROUBLED_PARTS_MAX: usize = 64;
/// Parts in trouble from which on every second part is the oldest, which is far from the newest: that
/// rows beside a bad one are bad, too, is likely, and a part that is stored proves what is wrong with them.
const TROUBLED_PARTS_NEAR: usize = 4;

/// An insert that the checkpoint names, or will before it is sent.
#[derive(Debug)]
pub(super) struct Flight<S> {
    pub(super) unit: Arc<Unit<S>>,
    is_launched: bool,
    /// Whether it failed again and again; then it has a place of its own, and its key waits for it.
    is_troubled: bool,
    /// Whether nobody could be reached when it failed last.
    is_away: bool,
}

impl<S> Flight<S> {
    /// Whether other inserts of its table and month wait for it. For a part of one they do not: what its row is
    /// refused for need not be wrong with others.
    fn blocks(&self) -> bool {
        self.is_troubled && !self.unit.is_part
    }
}

impl<S> Plan<S> {
    /// Keys of which nothing further is sent until an insert in trouble is settled.
    pub(super) fn blocked(&self) -> BTreeSet<&Key> {
        let blocking = self.in_flight.values().filter(|it| it.blocks());
        blocking.map(|flight| &flight.unit.key).collect()
    }

    /// Sections that wait for inserts in trouble, those of the inserts among them. Others may fare better, unless
    /// nobody can be reached: then none of these count.
    pub(super) fn blocked_sections(&self) -> usize {
        let troubled = self.in_flight.values();
        let troubled = troubled.filter(|it| it.is_troubled && !it.is_away);
        let in_flight: usize = troubled.clone().map(|it| it.unit.sections.len()).sum();
        let blocking = troubled.filter(|it| it.blocks());
        let keys: BTreeSet<&Key> = blocking.map(|flight| &flight.unit.key).collect();
        let waiting = keys.into_iter().filter_map(|key| self.waiting.get(key));
        in_flight + waiting.map(|waiting| waiting.sections.len()).sum::<usize>()
    }
}

impl<S: Clone> Plan<S> {
    /// Makes inserts of what is due and returns those that may be sent now, after the checkpoint
    /// is stored. `run` is the server's run as it was last seen.
    pub fn launch(&mut self, now: Now, run: Option<Uuid>) -> Vec<(UnitId, Arc<Unit<S>>)> {
        while self.whole_in_flight() < self.limits.in_flight_max {
            let Some(due) = self.most_due(now) else { break };
            if due.is_early {
                self.early.spend(&self.limits, now.elapsed);
            }
            self.take(&due.key);
        }
        let mut units = Vec::new();
        for id in self.launchable() {
            let Some(flight) = self.in_flight.get_mut(&id) else {
                continue;
            };
            flight.is_launched = true;
            if !flight.unit.in_doubt {
                Arc::make_mut(&mut flight.unit).run = run;
            }
            units.push((id, Arc::clone(&flight.unit)));
        }
        self.is_changed |= !units.is_empty();
        units
    }

    /// Whether a call of [`Plan::launch`] would return something.
    pub fn can_launch(&self, now: Now) -> bool {
        let has_place = self.whole_in_flight() < self.limits.in_flight_max;
        (has_place && self.most_due(now).is_some()) || !self.launchable().is_empty()
    }

    /// An insert failed again and again, and goes on doing so in a place of its own; the last time, because nobody
    /// could be reached if it `is_away`.
    pub fn troubled(&mut self, id: UnitId, is_away: bool) {
        if let Some(flight) = self.in_flight.get_mut(&id) {
            flight.is_troubled = true;
            flight.is_away = is_away;
        }
    }

    /// Units in flight that are neither parts of refused ones nor in trouble.
    fn whole_in_flight(&self) -> usize {
        self.in_flight
            .values()
            .filter(|flight| !flight.unit.is_part && !flight.is_troubled)
            .count()
    }

    /// What may be sent now: whole units in their order, and of the parts one, the newest, so that one
    /// refused insert is taken apart to the end before the next.
    fn launchable(&self) -> Vec<UnitId> {
        let of_kind = |is_part: bool| {
            self.in_flight
                .iter()
                .filter(move |(_, flight)| flight.unit.is_part == is_part)
        };
        let ready = |is_part: bool| {
            of_kind(is_part)
                .filter(|(_, flight)| !flight.is_launched)
                .map(|(id, _)| *id)
        };
        let launched = |is_part: bool| {
            let launched = of_kind(is_part).filter(|(_, it)| it.is_launched && !it.is_troubled);
            launched.count()
        };
        let whole_free = self.limits.in_flight_max.saturating_sub(launched(false));
        let whole = ready(false).take(whole_free);
        let part = (launched(true) == 0).then(|| self.next_part()).flatten();
        whole.chain(part).collect()
    }

    /// The part that is sent next.
    fn next_part(&self) -> Option<UnitId> {
        let mut troubled: BTreeMap<&str, usize> = BTreeMap::new();
        for flight in self.parts().filter(|flight| flight.is_troubled) {
            *troubled.entry(&*flight.unit.key.insert_target).or_default() += 1;
        }
        let all: usize = troubled.values().sum();
        let mut ready = self.in_flight.iter().filter(|(_, flight)| {
            let troubled = troubled.get(&*flight.unit.key.insert_target);
            flight.unit.is_part
                && !flight.is_launched
                && troubled.is_none_or(|count| *count < TROUBLED_PARTS_MAX)
        });
        let is_far = all >= TROUBLED_PARTS_NEAR && all.is_multiple_of(2);
        let next = if is_far {
            ready.next()
        } else {
            ready.next_back()
        };
        next.map(|(id, _)| *id)
    }

    fn parts(&self) -> impl Iterator<Item = &Flight<S>> {
        self.in_flight.values().filter(|it| it.unit.is_part)
    }

    pub(super) fn add_flight(&mut self, unit: Unit<S>) {
        let flight = Flight {
            unit: Arc::new(unit),
            is_launched: false,
            is_troubled: false,
            is_away: false,
        };
        self.in_flight.insert(self.next_id, flight);
        self.next_id += 1;
        self.is_changed = true;
    }

    /// The rows of a unit are in ClickHouse, or set aside.
    pub fn settled(&mut self, id: UnitId) {
        self.remove(id);
    }

    fn remove(&mut self, id: UnitId) {
        if let Some(flight) = self.in_flight.remove(&id) {
            self.sections = self.sections.saturating_sub(flight.unit.sections.len());
            self.is_changed = true;
        }
        let low = self.low();
        self.taken.retain(|_, place| place.frame >= low);
    }

    /// The rows of a unit are certainly not in ClickHouse, and its token may be spent: they are
    /// sent again under the next attempt.
    pub fn absent(&mut self, id: UnitId) {
        let start_mark = self.start_mark;
        self.relaunch(id, |unit| {
            unit.attempt += 1;
            // Whoever had this folder before a copy took its place may have used the next attempt, too.
            unit.start_mark = Some(start_mark);
            unit.in_doubt = false;
            unit.is_suspect = false;
        });
    }

    /// The server restarted before a unit was sent: it is recorded anew with the present run.
    pub fn restarted(&mut self, id: UnitId) {
        self.relaunch(id, |_| {});
    }

    fn relaunch(&mut self, id: UnitId, change: impl FnOnce(&mut Unit<S>)) {
        if let Some(flight) = self.in_flight.get_mut(&id) {
            change(Arc::make_mut(&mut flight.unit));
            flight.is_launched = false;
            flight.is_troubled = false;
            flight.is_away = false;
            self.is_changed = true;
        }
    }

    /// ClickHouse cannot read the rows of a unit: two halves take its place. False when the unit
    /// is a single row, which the caller sets aside and then reports as settled.
    pub fn refused(&mut self, id: UnitId) -> bool {
        self.halve(id, false)
    }

    /// ClickHouse has some of the rows of a unit and others not: two halves take its place, of which the same may
    /// be true. False when the unit is a single row.
    pub fn parted(&mut self, id: UnitId) -> bool {
        self.halve(id, true)
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
        let target = Arc::clone(&self.in_flight.get(&id)?.unit.key.insert_target);
        let parts = self.parts();
        let parts = parts.filter(|it| it.unit.key.insert_target == target);
        let has_room = parts.count() < PARTS_MAX;
        if can_halve && has_room && self.refused(id) {
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
