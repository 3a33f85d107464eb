//! Memory budget for the pages of a row group.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most bytes that pages, and copies made of them for one batch of rows, may take.
pub(super) const BATCH_BYTES_MAX: u64 = 256 << 20;

/// Counts the memory that the columns of a row group hold.
#[derive(Debug)]
pub(super) struct Budget(Mutex<Usage>);

#[derive(Debug)]
struct Usage {
    columns: Vec<ColumnUsage>,
    /// Bytes of other data that stays while the row group is read.
    other_bytes: u64,
    /// Bytes of this batch: rows point into all pages that they are from, also into earlier ones.
    batch_bytes: u64,
    is_exceeded: bool,
    /// True if the bytes that stay from batch to batch exceeded the budget.
    is_held: bool,
}

/// Bytes of a column that stay until its next page.
#[derive(Clone, Copy, Debug, Default)]
struct ColumnUsage {
    dictionary: u64,
    page: u64,
    /// Part of the last of these two that is freed when the page is unpacked.
    transient: TransientBytes,
}

/// Bytes that a page takes until it is unpacked.
#[derive(Clone, Copy, Debug, Default)]
struct TransientBytes {
    is_dictionary: bool,
    bytes: u64,
}

impl ColumnUsage {
    fn of(&mut self, is_dictionary: bool) -> &mut u64 {
        if is_dictionary {
            &mut self.dictionary
        } else {
            &mut self.page
        }
    }
}

impl Usage {
    fn take(&mut self, bytes: u64) -> bool {
        self.batch_bytes = self.batch_bytes.saturating_add(bytes);
        if self.batch_bytes > BATCH_BYTES_MAX {
            self.is_exceeded = true;
            self.is_held = self.held_bytes() > BATCH_BYTES_MAX;
        }
        !self.is_exceeded
    }

    fn held_bytes(&self) -> u64 {
        let held = self.columns.iter();
        held.map(|held| held.dictionary.saturating_add(held.page))
            .fold(self.other_bytes, u64::saturating_add)
    }
}

impl Budget {
    /// Creates a budget for a number of columns, besides the bytes of other data.
    pub(super) fn new(columns: usize, other_bytes: u64) -> Self {
        Self(Mutex::new(Usage {
            columns: vec![ColumnUsage::default(); columns],
            other_bytes,
            batch_bytes: other_bytes,
            is_exceeded: false,
            is_held: false,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the last batch: only dictionaries and unfinished pages are still held.
    pub(super) fn begin_batch(&self) {
        let mut usage = self.lock();
        usage.batch_bytes = usage.held_bytes();
    }

    /// Takes bytes for a page, of which `transient_bytes` are freed when it is unpacked; returns
    /// false if too few are left.
    pub(super) fn take(
        &self,
        column: usize,
        is_dictionary: bool,
        bytes: u64,
        transient_bytes: u64,
    ) -> bool {
        let mut usage = self.lock();
        if let Some(held) = usage.columns.get_mut(column) {
            *held.of(is_dictionary) = bytes;
            held.transient = TransientBytes {
                is_dictionary,
                bytes: transient_bytes,
            };
        }
        usage.take(bytes)
    }

    /// Notes that the last page of a column was unpacked: frees its transient bytes, and takes
    /// bytes for copies made of it.
    pub(super) fn unpacked(&self, column: usize, more_bytes: u64) -> bool {
        let mut usage = self.lock();
        let mut freed = 0;
        if let Some(held) = usage.columns.get_mut(column) {
            let transient = std::mem::take(&mut held.transient);
            freed = transient.bytes;
            let bytes = held.of(transient.is_dictionary);
            *bytes = bytes.saturating_sub(freed).saturating_add(more_bytes);
        }
        usage.batch_bytes = usage.batch_bytes.saturating_sub(freed);
        usage.take(more_bytes)
    }

    /// Bytes of a column's dictionary.
    pub(super) fn dictionary_bytes(&self, column: usize) -> u64 {
        let usage = self.lock();
        usage.columns.get(column).map_or(0, |held| held.dictionary)
    }

    /// Returns true if a page exceeded the budget, so that a batch of fewer rows may be read.
    pub(super) fn is_exceeded(&self) -> bool {
        self.lock().is_exceeded
    }

    /// Returns true if a batch of any number of rows would exceed the budget, so that only fewer
    /// columns may be read.
    pub(super) fn is_held(&self) -> bool {
        self.lock().is_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_the_bytes_that_the_last_one_does_not_hold() {
        let budget = Budget::new(2, 0);
        let take =
            |column, is_dictionary, mib: u64| budget.take(column, is_dictionary, mib << 20, 0);
        budget.begin_batch();
        assert!(take(0, true, 100) && take(0, false, 100));
        // Rows still point into the page before.
        assert!(take(0, false, 50));
        budget.begin_batch();
        assert!(take(1, false, 100), "150 MiB are held");
        assert!(!take(1, false, 7));
        assert!(
            budget.is_exceeded() && !budget.is_held(),
            "one page is left behind"
        );
    }

    #[test]
    fn columns_that_exceed_the_budget_together_are_distinguished_from_long_batches() {
        let budget = Budget::new(2, 56 << 20);
        budget.begin_batch();
        assert!(budget.take(0, true, 100 << 20, 0));
        assert!(budget.take(1, true, 100 << 20, 0), "all there is");
        assert!(!budget.take(1, false, 1, 0));
        assert!(budget.is_held());
    }

    #[test]
    fn transient_bytes_are_free_for_the_next_page() {
        let budget = Budget::new(3, 0);
        budget.begin_batch();
        for column in 0..2 {
            assert!(budget.take(column, column == 0, 150 << 20, 100 << 20));
            assert!(budget.unpacked(column, 1 << 20));
        }
        assert_eq!(budget.dictionary_bytes(0), 51 << 20);
        budget.begin_batch();
        assert!(budget.take(2, false, 154 << 20, 0), "102 MiB are held");
        assert!(!budget.unpacked(2, 1 << 20));
    }
}
