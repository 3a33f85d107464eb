//! Insert batches in flight, until they are settled.

use super::permits::Permits;
use super::{BatchId, Now, Plan};
use crate::ship::insert_batch::InsertBatch;
use crate::ship::section::InsertKey;
use millrace_log::Position;
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

/// An insert batch that the checkpoint has, or will have before it is sent.
#[derive(Debug)]
pub(super) struct InFlight<S> {
    pub(super) batch: Arc<InsertBatch<S>>,
    pub(super) is_launched: bool,
    /// True if the batch failed again and again; then it has a permit of its own, its key waits for
    /// it, and of those of one key only one is tried at a time ([`Retries`](crate::ship::retries)).
    pub(super) is_failing: bool,
    /// True if nobody could be reached when the batch failed last.
    pub(super) is_unreachable: bool,
    /// True if the batch is kept whole although its rows may be to blame: its table has many
    /// parts.
    pub(super) is_kept_whole: bool,
    /// True if nothing was sent under the token of a batch in doubt, so that the boot id is to be
    /// recorded.
    pub(super) is_unsent: bool,
}

impl<S> InFlight<S> {
    /// Returns true if other batches of its table and month wait for it. They do not wait for a
    /// part: other rows need not share its fault.
    fn blocks(&self) -> bool {
        self.is_failing && !self.batch.is_part
    }
}

impl<S> Plan<S> {
    /// Keys of which nothing further is sent until a failing batch or waiting parts are settled.
    pub(super) fn blocked(&self) -> BTreeSet<&InsertKey> {
        self.blocked_by(|_| true)
    }

    fn blocked_by(&self, counts: impl Fn(&InFlight<S>) -> bool) -> BTreeSet<&InsertKey> {
        let in_flight = self.in_flight.values();
        let blocking = in_flight.filter(|it| it.blocks() && counts(it));
        let held_back = self.tables_with_many_parts();
        let waiting = self.waiting.keys();
        let of_held_back = waiting.filter(|key| held_back.contains(&&*key.insert_target));
        let blocking = blocking.map(|in_flight| &in_flight.batch.key);
        blocking.chain(of_held_back).collect()
    }

    /// Number of sections that wait for failing batches and for parts, including the sections of
    /// both. Sections that wait because nobody can be reached do not count: others would fail, too.
    pub(super) fn blocked_sections(&self) -> usize {
        let in_flight = self.in_flight.values().filter(|it| !it.is_unreachable);
        let failing = in_flight.filter(|it| it.is_failing || it.batch.is_part);
        let in_flight: usize = failing.map(|it| it.batch.sections.len()).sum();
        let waiting = self.blocked_by(|it| !it.is_unreachable).into_iter();
        let waiting = waiting.filter_map(|key| self.waiting.get(key));
        in_flight + waiting.map(|waiting| waiting.sections.len()).sum::<usize>()
    }
}

impl<S: Clone> Plan<S> {
    /// Makes batches of the sections that are due and returns those that may be sent now, after the
    /// checkpoint is persisted. `boot_id` is the server's as it was last seen.
    pub fn launch(
        &mut self,
        now: Now,
        boot_id: Option<Uuid>,
    ) -> Vec<(BatchId, Arc<InsertBatch<S>>)> {
        while let Some(due) = self.most_due(now) {
            if due.is_early {
                self.early_sends.spend(&self.limits, now.elapsed);
            }
            self.take(&due.key);
        }
        let mut batches = Vec::new();
        for id in self.launchable(now) {
            let Some(in_flight) = self.in_flight.get_mut(&id) else {
                continue;
            };
            in_flight.is_launched = true;
            if in_flight.batch.is_part
                && let Some(history) = self.history.get_mut(&in_flight.batch.key.insert_target)
            {
                history.launched();
            }
            let is_unsent = std::mem::take(&mut in_flight.is_unsent);
            if is_unsent || !in_flight.batch.in_doubt {
                Arc::make_mut(&mut in_flight.batch).boot_id = boot_id;
            }
            batches.push((id, Arc::clone(&in_flight.batch)));
        }
        self.is_changed |= !batches.is_empty();
        batches
    }

    /// Returns true if a call of [`Plan::launch`] would return a batch.
    pub fn can_launch(&self, now: Now) -> bool {
        self.most_due(now).is_some() || !self.launchable(now).is_empty()
    }

    /// Marks a batch that failed again and again; it goes on with a permit of its own.
    /// `is_unreachable` is true if nobody could be reached when it failed last: that holds for the
    /// failing batches of its key, too, which are parked until this one is through.
    pub fn mark_failing(&mut self, id: BatchId, is_unreachable: bool) {
        let Some(in_flight) = self.in_flight.get_mut(&id) else {
            return;
        };
        in_flight.is_failing = true;
        in_flight.is_unreachable = is_unreachable;
        if !in_flight.blocks() {
            return;
        }
        let key = in_flight.batch.key.clone();
        let parked = self.in_flight.values_mut();
        for other in parked.filter(|it| it.blocks() && it.batch.key == key) {
            other.is_unreachable = is_unreachable;
        }
    }

    /// Marks a batch as failing that is parked until others of its key are through. The last try of
    /// those is the later one, so that theirs decides whether somebody can be reached, if they are
    /// known to fail; else `is_unreachable`.
    pub fn mark_parked(&mut self, id: BatchId, is_unreachable: bool) {
        let Some(parked) = self.in_flight.get(&id) else {
            return;
        };
        let key = &parked.batch.key;
        let others = self.in_flight.iter().filter(|(other, _)| **other != id);
        let mut failing = others.filter(|(_, it)| it.blocks() && it.batch.key == *key);
        let reported = failing.next().map(|(_, it)| it.is_unreachable);
        if let Some(parked) = self.in_flight.get_mut(&id) {
            parked.is_failing = true;
            parked.is_unreachable = reported.unwrap_or(is_unreachable);
        }
    }

    /// Permits that are left for further batches, given those in flight that are neither parts of
    /// refused ones nor failing, and do not wait for such parts.
    pub(super) fn permits_left(&self) -> Permits {
        let held_back = self.tables_with_many_parts();
        let whole = self.in_flight.values().filter(|it| !it.batch.is_part);
        let not_failing = whole.filter(|in_flight| !in_flight.is_failing);
        let counted = not_failing
            .filter(|it| it.is_launched || !held_back.contains(&&*it.batch.key.insert_target));
        let keys = counted.map(|it| &it.batch.key);
        Permits::left_by(keys, self.limits.in_flight_max)
    }

    /// Batches that may be sent now: whole ones in their order, and one part of each table.
    fn launchable(&self, now: Now) -> Vec<BatchId> {
        let held_back = self.tables_with_many_parts();
        let whole = || self.in_flight.iter().filter(|(_, it)| !it.batch.is_part);
        let launched = whole().filter(|(_, it)| it.is_launched && !it.is_failing);
        let launched = launched.map(|(_, it)| &it.batch.key);
        let mut permits = Permits::left_by(launched, self.limits.in_flight_max);
        let ready = whole().filter(|(_, it)| {
            !it.is_launched && !held_back.contains(&&*it.batch.key.insert_target)
        });
        let ready = ready.filter(|(_, it)| permits.take(&it.batch.key));
        let ready = ready.map(|(id, _)| *id);
        ready.chain(self.next_parts(now.elapsed)).collect()
    }

    /// First and last frame of each batch in flight.
    pub fn frames_in_flight(&self) -> impl Iterator<Item = (Position, Position)> {
        let batches = self.in_flight.values().map(|it| &it.batch);
        batches.map(|batch| (batch.span.first.frame, batch.span.last.frame))
    }

    pub(super) fn add_in_flight(&mut self, batch: InsertBatch<S>) {
        let in_flight = InFlight {
            batch: Arc::new(batch),
            is_launched: false,
            is_failing: false,
            is_unreachable: false,
            is_kept_whole: false,
            is_unsent: false,
        };
        self.in_flight.insert(self.next_id, in_flight);
        self.next_id += 1;
        self.is_changed = true;
    }

    /// Removes a batch whose rows are in ClickHouse, or dead-lettered.
    pub fn settled(&mut self, id: BatchId) {
        let table = self
            .in_flight
            .get(&id)
            .map(|it| &it.batch.key.insert_target);
        if let Some(history) = table.and_then(|table| self.history.get_mut(table)) {
            history.settled();
        }
        self.remove(id);
    }

    pub(super) fn remove(&mut self, id: BatchId) {
        if let Some(in_flight) = self.in_flight.remove(&id) {
            self.sections = self.sections.saturating_sub(in_flight.batch.sections.len());
            self.is_changed = true;
        }
        let low = self.low();
        self.taken.retain(|_, position| position.frame >= low);
    }

    /// Relaunches a batch under the next attempt: its rows are certainly not in ClickHouse, and its
    /// token may be spent.
    pub fn absent(&mut self, id: BatchId) {
        let start_mark = self.start_mark;
        self.relaunch(id, |batch| {
            batch.attempt += 1;
            // Another process may have used the next attempt, if the folder is a copy.
            batch.start_mark = Some(start_mark);
            batch.in_doubt = false;
            batch.is_suspect = false;
        });
    }

    /// Relaunches a batch of which shards may have some rows and not others.
    pub fn doubted(&mut self, id: BatchId) {
        self.relaunch(id, |batch| {
            batch.in_doubt = true;
            batch.is_suspect = true;
        });
    }

    /// Relaunches a batch under the next attempt of which shards have some rows: its token may be
    /// spent on those that lack theirs.
    pub fn incomplete(&mut self, id: BatchId) {
        self.absent(id);
        self.doubted(id);
        if let Some(in_flight) = self.in_flight.get_mut(&id) {
            in_flight.is_unsent = true;
        }
    }

    /// Relaunches a batch that was not sent before the server restarted: it is recorded with the
    /// new boot id.
    pub fn restarted(&mut self, id: BatchId) {
        self.relaunch(id, |_| {});
    }

    pub(super) fn relaunch(&mut self, id: BatchId, change: impl FnOnce(&mut InsertBatch<S>)) {
        if let Some(in_flight) = self.in_flight.get_mut(&id) {
            change(Arc::make_mut(&mut in_flight.batch));
            in_flight.is_launched = false;
            in_flight.is_failing = false;
            in_flight.is_unreachable = false;
            in_flight.is_kept_whole = false;
            self.is_changed = true;
        }
    }
}
