//! How many bytes of bodies the process holds.
//!
//! Bytes are counted, not requests: one body may be a thousand times another. A request asks
//! before it reads, and gives back when its [`Share`] is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of bodies in memory, shared by all cores.
#[derive(Debug)]
pub struct Budget {
    used: AtomicUsize,
    bytes_max: usize,
}

impl Budget {
    /// An unused budget.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            bytes_max,
        })
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether so many bytes more would fit at the moment; nothing is taken.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.used().saturating_add(bytes) <= self.bytes_max
    }

    /// A share of nothing, to be grown.
    pub fn share(self: &Arc<Self>) -> Share {
        Share {
            budget: Arc::clone(self),
            bytes: 0,
        }
    }
}

/// What one request holds of the budget.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Share {
    /// Makes the share at least `bytes` large; `false` when the budget has no room for it.
    #[must_use]
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            return true;
        };
        let before = self.budget.used.fetch_add(more, Ordering::Relaxed);
        if before.saturating_add(more) > self.budget.bytes_max {
            self.budget.used.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_never_exceeded_and_wholly_given_back() {
        let budget = Budget::new(100);
        let mut first = budget.share();
        let mut second = budget.share();
        assert!(first.grow_to(60));
        assert!(first.grow_to(40), "a share never shrinks");
        assert!(!second.grow_to(41));
        assert!(second.grow_to(40));
        assert!(!first.grow_to(61));
        assert_eq!(budget.used(), 100);
        assert!(!budget.has_room(1));
        drop(first);
        assert!(budget.has_room(60) && !budget.has_room(61));
        drop(second);
        assert_eq!(budget.used(), 0);
    }
}
