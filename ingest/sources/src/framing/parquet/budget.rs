//! How much memory the pages of a row group may take at once.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that pages, and what is made of them for one batch of rows, may take.
pub(super) const BATCH_BYTES_MAX: u64 = 256 << 20;

/// Counts what the columns of a row group hold.
#[derive(Debug)]
pub(super) struct Budget(Mutex<Spent>);

#[derive(Debug)]
struct Spent {
    columns: Vec<Held>,
    /// By others, for as long as the row group is read.
    other_bytes: u64,
    /// By this batch: rows point into all pages that they are from, also those that were left behind.
    batch_bytes: u64,
    is_exceeded: bool,
    /// Whether it was by what stays from batch to batch.
    is_held: bool,
}

/// Bytes of a column that stay until its next page.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    dictionary: u64,
    page: u64,
    /// Of the last of these two, what is given back when it is unpacked.
    passing: Passing,
}

/// Bytes that a page takes until it is unpacked.
#[derive(Clone, Copy, Debug, Default)]
struct Passing {
    is_dictionary: bool,
    bytes: u64,
}

impl Held {
    fn of(&mut self, is_dictionary: bool) -> &mut u64 {
        if is_dictionary {
            &mut self.dictionary
        } else {
            &mut self.page
        }
    }
}

impl Spent {
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
    /// For so many columns, beside so many bytes of others.
    pub(super) fn new(columns: usize, other_bytes: u64) -> Self {
        Self(Mutex::new(Spent {
            columns: vec![Held::default(); columns],
            other_bytes,
            batch_bytes: other_bytes,
            is_exceeded: false,
            is_held: false,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Spent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last batch is gone: what is held is the dictionaries, and the pages that are not read to their end.
    pub(super) fn begin_batch(&self) {
        let mut spent = self.lock();
        spent.batch_bytes = spent.held_bytes();
    }

    /// Takes bytes for a page, of which some pass when it is unpacked; false when there are not as many left.
    pub(super) fn take(
        &self,
        column: usize,
        is_dictionary: bool,
        bytes: u64,
        passing_bytes: u64,
    ) -> bool {
        let mut spent = self.lock();
        if let Some(held) = spent.columns.get_mut(column) {
            *held.of(is_dictionary) = bytes;
            held.passing = Passing {
                is_dictionary,
                bytes: passing_bytes,
            };
        }
        spent.take(bytes)
    }

    /// The last page of a column is unpacked: gives back what has passed, and takes bytes for what is made of it.
    pub(super) fn unpacked(&self, column: usize, more_bytes: u64) -> bool {
        let mut spent = self.lock();
        let mut passed = 0;
        if let Some(held) = spent.columns.get_mut(column) {
            let passing = std::mem::take(&mut held.passing);
            passed = passing.bytes;
            let bytes = held.of(passing.is_dictionary);
            *bytes = bytes.saturating_sub(passed).saturating_add(more_bytes);
        }
        spent.batch_bytes = spent.batch_bytes.saturating_sub(passed);
        spent.take(more_bytes)
    }

    /// Bytes of a column's dictionary.
    pub(super) fn dictionary_bytes(&self, column: usize) -> u64 {
        let spent = self.lock();
        spent.columns.get(column).map_or(0, |held| held.dictionary)
    }

    /// Tells whether a page was refused for want of bytes, so that a batch of fewer rows may be read.
    pub(super) fn is_exceeded(&self) -> bool {
        self.lock().is_exceeded
    }

    /// Tells whether that would be so for a batch of any number of rows, so that only fewer columns may be read.
    pub(super) fn is_held(&self) -> bool {
        self.lock().is_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_what_the_last_one_left() {
        let budget = Budget::new(2, 0);
        let take =
            |column, is_dictionary, mib: u64| budget.take(column, is_dictionary, mib << 20, 0);
        budget.begin_batch();
        assert!(take(0, true, 100) && take(0, false, 100));
        // The page of before is still pointed into.
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
    fn columns_that_do_not_fit_beside_one_another_are_told_apart_from_long_batches() {
        let budget = Budget::new(2, 56 << 20);
        budget.begin_batch();
        assert!(budget.take(0, true, 100 << 20, 0));
        assert!(budget.take(1, true, 100 << 20, 0), "all there is");
        assert!(!budget.take(1, false, 1, 0));
        assert!(budget.is_held());
    }

    #[test]
    fn what_passes_is_there_for_the_next_page() {
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
