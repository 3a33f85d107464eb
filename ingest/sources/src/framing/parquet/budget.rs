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
    /// By this batch: rows point into all pages that they are from, also those that were left behind.
    batch_bytes: u64,
    is_exceeded: bool,
}

/// Bytes of a column that stay until its next page.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    dictionary: u64,
    page: u64,
}

impl Budget {
    pub(super) fn new(columns: usize) -> Self {
        Self(Mutex::new(Spent {
            columns: vec![Held::default(); columns],
            batch_bytes: 0,
            is_exceeded: false,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Spent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last batch is gone: what is held is the dictionaries, and the pages that are not read to their end.
    pub(super) fn begin_batch(&self) {
        let mut spent = self.lock();
        let held = spent.columns.iter();
        spent.batch_bytes = held
            .map(|held| held.dictionary.saturating_add(held.page))
            .sum();
    }

    /// Takes bytes for a page; false when there are not as many left.
    pub(super) fn take(&self, column: usize, is_dictionary: bool, bytes: u64) -> bool {
        let mut spent = self.lock();
        spent.batch_bytes = spent.batch_bytes.saturating_add(bytes);
        if let Some(held) = spent.columns.get_mut(column) {
            if is_dictionary {
                held.dictionary = bytes;
            } else {
                held.page = bytes;
            }
        }
        spent.is_exceeded |= spent.batch_bytes > BATCH_BYTES_MAX;
        !spent.is_exceeded
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_what_the_last_one_left() {
        let budget = Budget::new(2);
        budget.begin_batch();
        assert!(budget.take(0, true, 100 << 20) && budget.take(0, false, 100 << 20));
        // The page of before is still pointed into.
        assert!(budget.take(0, false, 50 << 20));
        budget.begin_batch();
        assert!(budget.take(1, false, 100 << 20), "150 MiB are held");
        assert!(!budget.take(1, false, 7 << 20));
        assert!(budget.is_exceeded());
    }
}
