//! What is in an insert, until it is settled.

use super::{Now, Plan, UnitId};
use crate::ship::section::Key;
use crate::ship::unit::Unit;
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

/// An insert that the checkpoint names, or will before it is sent.
#[derive(Debug)]
pub(super) struct Flight<S> {
    pub(super) unit: Arc<Unit<S>>,
    pub(super) is_launched: bool,
    /// Whether it failed again and again; then it has a place of its own, and its key waits for it.
    pub(super) is_troubled: bool,
    /// Whether nobody could be reached when it failed last.
    pub(super) is_away: bool,
    /// Whether it is kept whole although its rows may be to blame, as its table has many parts.
    pub(super) is_kept: bool,
}

impl<S> Flight<S> {
    /// Whether other inserts of its table and month wait for it. For a part of one they do not: what its row is
    /// refused for need not be wrong with others.
    fn blocks(&self) -> bool {
        self.is_troubled && !self.unit.is_part
    }
}

impl<S> Plan<S> {
    /// Keys of which nothing further is sent until an insert in trouble is settled, or parts that wait are.
    pub(super) fn blocked(&self) -> BTreeSet<&Key> {
        self.blocked_by(|_| true)
    }

    fn blocked_by(&self, counts: impl Fn(&Flight<S>) -> bool) -> BTreeSet<&Key> {
        let flights = self.in_flight.values();
        let blocking = flights.filter(|it| it.blocks() && counts(it));
        let crowded = self.crowded();
        let waiting = self.waiting.keys();
        let of_crowded = waiting.filter(|key| crowded.contains(&&*key.insert_target));
        let blocking = blocking.map(|flight| &flight.unit.key);
        blocking.chain(of_crowded).collect()
    }

    /// Sections that wait for inserts in trouble and for parts, those of them among these. Others may fare better,
    /// unless nobody can be reached: what waits for that does not count.
    pub(super) fn blocked_sections(&self) -> usize {
        let flights = self.in_flight.values().filter(|it| !it.is_away);
        let troubled = flights.filter(|it| it.is_troubled || it.unit.is_part);
        let in_flight: usize = troubled.map(|it| it.unit.sections.len()).sum();
        let waiting = self.blocked_by(|flight| !flight.is_away).into_iter();
        let waiting = waiting.filter_map(|key| self.waiting.get(key));
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
        for id in self.launchable(now) {
            let Some(flight) = self.in_flight.get_mut(&id) else {
                continue;
            };
            flight.is_launched = true;
            if flight.unit.is_part
                && let Some(progress) = self.progress.get_mut(&flight.unit.key.insert_target)
            {
                progress.sent();
            }
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
        (has_place && self.most_due(now).is_some()) || !self.launchable(now).is_empty()
    }

    /// An insert failed again and again, and goes on doing so in a place of its own; the last time, because nobody
    /// could be reached if it `is_away`.
    pub fn troubled(&mut self, id: UnitId, is_away: bool) {
        if let Some(flight) = self.in_flight.get_mut(&id) {
            flight.is_troubled = true;
            flight.is_away = is_away;
        }
    }

    /// Units in flight that are neither parts of refused ones nor in trouble, nor wait for such parts.
    fn whole_in_flight(&self) -> usize {
        let crowded = self.crowded();
        let whole = self.in_flight.values().filter(|it| !it.unit.is_part);
        let untroubled = whole.filter(|flight| !flight.is_troubled);
        untroubled
            .filter(|it| it.is_launched || !crowded.contains(&&*it.unit.key.insert_target))
            .count()
    }

    /// What may be sent now: whole units in their order, and of the parts one of each table.
    fn launchable(&self, now: Now) -> Vec<UnitId> {
        let crowded = self.crowded();
        let whole = || self.in_flight.iter().filter(|(_, it)| !it.unit.is_part);
        let launched = whole().filter(|(_, it)| it.is_launched && !it.is_troubled);
        let free = self.limits.in_flight_max.saturating_sub(launched.count());
        let ready = whole()
            .filter(|(_, it)| !it.is_launched && !crowded.contains(&&*it.unit.key.insert_target));
        let ready = ready.map(|(id, _)| *id).take(free);
        ready.chain(self.next_parts(now.elapsed)).collect()
    }

    pub(super) fn add_flight(&mut self, unit: Unit<S>) {
        let flight = Flight {
            unit: Arc::new(unit),
            is_launched: false,
            is_troubled: false,
            is_away: false,
            is_kept: false,
        };
        self.in_flight.insert(self.next_id, flight);
        self.next_id += 1;
        self.is_changed = true;
    }

    /// The rows of a unit are in ClickHouse, or set aside.
    pub fn settled(&mut self, id: UnitId) {
        let flight = self.in_flight.get(&id);
        let table = flight.map(|it| &it.unit.key.insert_target);
        if let Some(progress) = table.and_then(|table| self.progress.get_mut(table)) {
            progress.settled();
        }
        self.remove(id);
    }

    pub(super) fn remove(&mut self, id: UnitId) {
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

    pub(super) fn relaunch(&mut self, id: UnitId, change: impl FnOnce(&mut Unit<S>)) {
        if let Some(flight) = self.in_flight.get_mut(&id) {
            change(Arc::make_mut(&mut flight.unit));
            flight.is_launched = false;
            flight.is_troubled = false;
            flight.is_away = false;
            flight.is_kept = false;
            self.is_changed = true;
        }
    }
}
