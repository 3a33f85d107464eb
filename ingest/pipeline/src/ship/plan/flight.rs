//! What is in an insert, until it is settled.

use super::{Now, Plan, UnitId};
use crate::ship::unit::Unit;
use std::sync::Arc;
use uuid::Uuid;

/// An insert that the checkpoint names, or will before it is sent.
#[derive(Debug)]
pub(super) struct Flight<S> {
    pub(super) unit: Arc<Unit<S>>,
    is_launched: bool,
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

    /// Units in flight that are not parts of refused ones.
    fn whole_in_flight(&self) -> usize {
        self.in_flight
            .values()
            .filter(|flight| !flight.unit.is_part)
            .count()
    }

    /// What may be sent now: whole units in their order, and of the parts the newest one, so that
    /// one refused insert is taken apart to the end before the next.
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
        let launched = |is_part: bool| of_kind(is_part).filter(|(_, it)| it.is_launched).count();
        let whole_free = self.limits.in_flight_max.saturating_sub(launched(false));
        let parts_free = 1_usize.saturating_sub(launched(true));
        let whole = ready(false).take(whole_free);
        let parts = ready(true).next_back().into_iter().take(parts_free);
        whole.chain(parts).collect()
    }

    pub(super) fn add_flight(&mut self, unit: Unit<S>) {
        let flight = Flight {
            unit: Arc::new(unit),
            is_launched: false,
        };
        self.in_flight.insert(self.next_id, flight);
        self.next_id += 1;
        self.is_changed = true;
    }

    /// The rows of a unit are in ClickHouse, or set aside.
    pub fn settled(&mut self, id: UnitId) {
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
        self.relaunch(id, |unit| {
            unit.attempt += 1;
            unit.in_doubt = false;
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
            self.is_changed = true;
        }
    }

    /// ClickHouse cannot read the rows of a unit: two halves take its place. False when the unit
    /// is a single row, which the caller sets aside and then reports as settled.
    pub fn refused(&mut self, id: UnitId) -> bool {
        let halves = self
            .in_flight
            .get(&id)
            .and_then(|flight| flight.unit.halves());
        let Some(halves) = halves else { return false };
        for half in halves {
            self.sections += half.sections.len();
            self.add_flight(half);
        }
        // Only now, so that `low` does not pass the rows in between.
        self.settled(id);
        true
    }
}
