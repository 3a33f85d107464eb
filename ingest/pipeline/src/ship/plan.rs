//! Which rows go into which insert, and what must be remembered of it: pure, no I/O, no clock.
//!
//! ```text
//! gather: waiting ──take──> in flight ──settled──> (gone)
//!                              │  ▲
//!                 refused: halves └─ absent: next attempt
//! ```
//!
//! Invariants:
//! - every section from `low` on is waiting, in flight, or settled; it is never in two of them;
//! - sections of a key are taken in the order of the log, hence one place per key tells which
//!   were taken;
//! - `low` passes a section only when it is settled.

use super::checkpoint::{Checkpoint, Range};
use super::limits::Limits;
use super::section::{Key, Place, Section};
use super::unit::Unit;
use millrace_log::Position;
use millrace_rows::{Micros, Month};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Names a unit in flight, within one process.
pub type UnitId = u64;

/// The plan of a lane.
#[derive(Debug)]
pub struct Plan<S> {
    limits: Limits,
    salt: u32,
    waiting: BTreeMap<Key, Waiting<S>>,
    in_flight: BTreeMap<UnitId, Flight<S>>,
    /// Ranges of the last checkpoint whose sections have not all been read again.
    recovering: Vec<Recovering<S>>,
    taken: BTreeMap<Key, Place>,
    read_to: Position,
    /// Sections below this are suspects, see [`Section::is_suspect`].
    suspect_below: Position,
    next_id: UnitId,
    sections: usize,
    is_changed: bool,
}

#[derive(Debug)]
struct Waiting<S> {
    sections: VecDeque<(Duration, Section<S>)>,
    rows: u64,
    row_bytes: u64,
}

#[derive(Debug)]
struct Flight<S> {
    unit: Arc<Unit<S>>,
    is_launched: bool,
}

#[derive(Debug)]
struct Recovering<S> {
    range: Range,
    sections: Vec<Section<S>>,
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

// === impl Plan: from and to a checkpoint ===

impl<S: Clone> Plan<S> {
    /// A lane without a checkpoint. Frames between `start` and `suspect_below` may have been
    /// shipped before the checkpoint was lost.
    pub fn new(limits: Limits, salt: u32, start: Position, suspect_below: Position) -> Self {
        Self {
            limits,
            salt,
            waiting: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            recovering: Vec::new(),
            taken: BTreeMap::new(),
            read_to: start,
            suspect_below,
            next_id: 0,
            sections: 0,
            is_changed: true,
        }
    }

    /// A lane that goes on.
    pub fn restore(limits: Limits, checkpoint: Checkpoint) -> Self {
        let recovering = checkpoint.in_flight.into_iter().map(|range| Recovering {
            range,
            sections: Vec::new(),
        });
        Self {
            recovering: recovering.collect(),
            taken: checkpoint.taken.into_iter().collect(),
            ..Self::new(
                limits,
                checkpoint.salt,
                checkpoint.low,
                checkpoint.suspect_below,
            )
        }
    }

    /// What a restart needs to go on from here.
    pub fn checkpoint(&self) -> Checkpoint {
        let low = self.low();
        let flights = self.in_flight.values().filter_map(|flight| {
            let unit = &flight.unit;
            Some(Range {
                key: unit.key.clone(),
                first: unit.first()?,
                last: unit.last()?,
                rows: unit.range,
                attempt: unit.attempt,
                run: unit.run,
            })
        });
        let recovering = self.recovering.iter().map(|it| it.range.clone());
        let taken = self.taken.iter().filter(|(_, place)| place.frame >= low);
        Checkpoint {
            salt: self.salt,
            low,
            suspect_below: self.suspect_below,
            taken: taken.map(|(key, place)| (key.clone(), *place)).collect(),
            in_flight: flights.chain(recovering).collect(),
        }
    }

    /// Whether the checkpoint changed since the last call.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// The checkpoint could not be stored.
    pub fn mark_changed(&mut self) {
        self.is_changed = true;
    }

    /// Everything below is in ClickHouse.
    pub fn low(&self) -> Position {
        let waiting = self.waiting.values().filter_map(Waiting::first);
        let flights = self.in_flight.values().filter_map(|it| it.unit.first());
        let recovering = self.recovering.iter().map(|it| it.range.first);
        let places = waiting.chain(flights).chain(recovering);
        places
            .map(|place| place.frame)
            .fold(self.read_to, Position::min)
    }

    /// The salt of the tokens.
    pub fn salt(&self) -> u32 {
        self.salt
    }
}

// === impl Plan: from the log ===

impl<S: Clone> Plan<S> {
    /// Where the log is to be read on.
    pub fn read_to(&self) -> Position {
        self.read_to
    }

    /// Whether there is room for more sections.
    pub fn has_room(&self) -> bool {
        self.sections < self.limits.sections_max
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

    /// Ranges that have all of their sections become units in doubt.
    fn finish_recovering(&mut self) {
        let read_to = self.read_to;
        let (done, rest) = std::mem::take(&mut self.recovering)
            .into_iter()
            .partition(|it| it.range.last.frame < read_to);
        self.recovering = rest;
        for Recovering { range, sections } in done {
            if sections.is_empty() {
                tracing::error!(?range, "an insert's frames are gone from the log");
                continue;
            }
            self.add_flight(Unit {
                key: range.key,
                sections,
                range: range.rows,
                attempt: range.attempt,
                in_doubt: true,
                run: range.run,
                is_part: range.rows.is_some(),
            });
        }
    }
}

// === impl Plan: to ClickHouse ===

impl<S: Clone> Plan<S> {
    /// Makes inserts of what is due and returns those that may be sent now, after the checkpoint
    /// is stored. `run` is the server's run as it was last seen.
    pub fn launch(&mut self, now: Now, run: Option<Uuid>) -> Vec<(UnitId, Arc<Unit<S>>)> {
        while self.whole_in_flight() < self.limits.in_flight_max {
            let Some(key) = self.most_due(now) else { break };
            self.take(&key);
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

    /// When the next insert falls due by age; `None` when nothing waits.
    pub fn next_due(&self, recent: Month) -> Option<Duration> {
        let dues = self.waiting.iter().filter_map(|(key, waiting)| {
            Some(waiting.since()? + self.limits.age(key.month, recent))
        });
        dues.min()
    }

    /// The key to send next: full ones before aged ones, then the one that has waited longest.
    fn most_due(&self, now: Now) -> Option<Key> {
        let pressed = !self.has_room() || now.is_draining;
        let due = self.waiting.iter().filter_map(|(key, waiting)| {
            let since = waiting.since()?;
            let is_full = waiting.rows >= self.limits.rows_target
                || waiting.row_bytes >= self.limits.bytes_target;
            let age = self.limits.age(key.month, now.recent);
            let is_due = is_full || pressed || now.elapsed >= since + age;
            is_due.then_some((!is_full, since, key))
        });
        due.min().map(|(_, _, key)| key.clone())
    }

    fn take(&mut self, key: &Key) {
        let Some(waiting) = self.waiting.get_mut(key) else {
            return;
        };
        let sections = waiting.take(&self.limits);
        if waiting.sections.is_empty() {
            self.waiting.remove(key);
        }
        if let Some(last) = sections.last() {
            self.taken.insert(key.clone(), last.place);
        }
        let in_doubt = sections.iter().any(|section| section.is_suspect);
        self.add_flight(Unit {
            key: key.clone(),
            sections,
            range: None,
            attempt: 0,
            in_doubt,
            run: None,
            is_part: false,
        });
    }

    fn add_flight(&mut self, unit: Unit<S>) {
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

// === impl Plan: for metrics and the end ===

impl<S> Plan<S> {
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
        let keys = waiting.chain(flights).filter_map(|it| it.keys.first());
        keys.map(|key| key.received_at).min()
    }
}

// === impl Waiting ===

impl<S> Default for Waiting<S> {
    fn default() -> Self {
        Self {
            sections: VecDeque::new(),
            rows: 0,
            row_bytes: 0,
        }
    }
}

impl<S> Waiting<S> {
    fn first(&self) -> Option<Place> {
        self.sections.front().map(|(_, section)| section.place)
    }

    fn since(&self) -> Option<Duration> {
        self.sections.front().map(|(since, _)| *since)
    }

    fn push(&mut self, section: Section<S>, now: Duration) {
        self.rows += u64::from(section.rows);
        self.row_bytes += section.row_bytes;
        self.sections.push_back((now, section));
    }

    /// The sections of one insert, from the oldest on: never empty unless nothing waits.
    fn take(&mut self, limits: &Limits) -> Vec<Section<S>> {
        let mut taken: Vec<Section<S>> = Vec::new();
        let (mut rows, mut row_bytes) = (0, 0);
        while let Some((_, next)) = self.sections.front() {
            let is_full = rows >= limits.rows_target || row_bytes >= limits.bytes_target;
            rows += u64::from(next.rows);
            row_bytes += next.row_bytes;
            // A suspect is alone with its doubt.
            let is_apart = next.is_suspect || taken.iter().any(|section| section.is_suspect);
            let fits = Limits::fits(rows, row_bytes) && !is_apart && !is_full;
            if !taken.is_empty() && !fits {
                break;
            }
            if let Some((_, section)) = self.sections.pop_front() {
                self.rows = self.rows.saturating_sub(u64::from(section.rows));
                self.row_bytes = self.row_bytes.saturating_sub(section.row_bytes);
                taken.push(section);
            }
        }
        taken
    }
}
