//! Permits of insert batches: a number for all, and one more for person updates.
//!
//! A frame of a hundred months makes as many batches, all due at once, and each has waited for
//! longer than the person updates that came after them. Without a permit of their own, persons
//! would wait for these inserts. It is one permit and no precedence, so however many updates come,
//! events have the others.

use crate::ship::section::InsertKey;
use millrace_rows::Table;

/// Permits that are left for further insert batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permits {
    /// Permits for batches of any table.
    any: usize,
    /// True if the permit of person updates is free.
    for_updates: bool,
    /// Number of further batches of person updates: with a quorum the lane has one permit, and
    /// ClickHouse rejects a second insert of a table.
    updates_max: usize,
}

impl Permits {
    /// Permits that batches in flight leave of `max` and that of person updates, given their keys.
    /// Updates take their own first.
    pub(super) fn left_by<'a>(keys: impl Iterator<Item = &'a InsertKey>, max: usize) -> Self {
        let (mut others, mut updates) = (0_usize, 0_usize);
        for key in keys {
            match are_updates(key) {
                true => updates += 1,
                false => others += 1,
            }
        }
        Self {
            any: max.saturating_sub(others + updates.saturating_sub(1)),
            for_updates: updates == 0,
            updates_max: max.saturating_sub(updates),
        }
    }

    /// Returns true if a batch of this key has a permit.
    pub(super) fn have(self, key: &InsertKey) -> bool {
        match are_updates(key) {
            true => self.updates_max > 0 && (self.for_updates || self.any > 0),
            false => self.any > 0,
        }
    }

    /// Takes a permit for a batch of this key; returns false if there is none.
    pub(super) fn take(&mut self, key: &InsertKey) -> bool {
        if !self.have(key) {
            return false;
        }
        let are_updates = are_updates(key);
        self.updates_max -= usize::from(are_updates);
        if are_updates && self.for_updates {
            self.for_updates = false;
        } else {
            self.any -= 1;
        }
        true
    }
}

fn are_updates(key: &InsertKey) -> bool {
    key.table() == Some(Table::PersonUpdates)
}
