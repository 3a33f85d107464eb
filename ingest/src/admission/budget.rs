//! Memory budget of request bodies, for the whole process.
//!
//! Bytes are counted, not requests: one body may be a thousand times as large as another. A request
//! asks before it reads, and gives its bytes back when its [`Share`] is dropped.
//!
//! A client that sends most of a large body at once and then a byte now and then would hold its
//! share for as long as bodies may take, and some fifty such clients the whole budget. So large
//! bodies of projects that are not known, or not yet, have half of the budget together; and slow
//! large bodies have a quarter, or half as soon as their project is known. Small bodies are bounded
//! by the number of connections, and count against the whole budget alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes up to which a body is small.
pub const SMALL_BYTES_MAX: usize = 64 << 10;
/// Divisor of the budget for large bodies of unknown projects.
const UNKNOWN_DIVISOR: usize = 2;
/// Divisor of the budget for slow large bodies.
const SLOW_DIVISOR: usize = 2;
/// Divisor of the budget for slow large bodies as long as their projects are unknown.
const SLOW_UNKNOWN_DIVISOR: usize = 4;

/// Bytes of bodies in memory, shared by all cores.
#[derive(Debug)]
pub struct Budget {
    all: BudgetPart,
    /// Bytes of large bodies whose projects are not known.
    unknown: BudgetPart,
    /// Bytes of large bodies that are slow.
    slow: BudgetPart,
    bytes_max: usize,
}

/// Part of the budget that one request holds.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    bytes: usize,
    is_known: bool,
    is_slow: bool,
}

/// Bytes in use.
#[derive(Debug, Default)]
struct BudgetPart(AtomicUsize);

// === impl Budget ===

impl Budget {
    /// Returns an unused budget.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            all: BudgetPart::default(),
            unknown: BudgetPart::default(),
            slow: BudgetPart::default(),
            bytes_max,
        })
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.all.0.load(Ordering::Relaxed)
    }

    /// Returns true if so many bytes more would fit at the moment; takes none.
    pub fn has_capacity(&self, bytes: usize) -> bool {
        self.used().saturating_add(bytes) <= self.bytes_max
    }

    /// Returns a share of no bytes, to be grown, of a project that is not known yet.
    pub fn share(self: &Arc<Self>) -> Share {
        Share {
            budget: Arc::clone(self),
            bytes: 0,
            is_known: false,
            is_slow: false,
        }
    }
}

// === impl Share ===

impl Share {
    /// Grows the share to at least `bytes`; returns `false` when the budget has not as many left.
    #[must_use]
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            return true;
        };
        if !self.budget.all.take(more, self.budget.bytes_max) {
            return false;
        }
        if !self.take_large(large(bytes) - self.large()) {
            self.budget.all.give(more);
            return false;
        }
        self.bytes = bytes;
        true
    }

    /// Counts the share as one of a known project from now on.
    pub fn mark_project_known(&mut self) {
        if !std::mem::replace(&mut self.is_known, true) {
            self.budget.unknown.give(self.large());
        }
    }

    /// Counts the share as one of a slow body from now on; returns `false` when the budget has not
    /// as many bytes left for slow bodies.
    #[must_use]
    pub fn slow_down(&mut self) -> bool {
        self.is_slow = self.is_slow || self.budget.slow.take(self.large(), self.slow_bytes_max());
        self.is_slow
    }

    /// Counts the share as slow no more, as the whole body has arrived.
    pub fn mark_complete(&mut self) {
        if std::mem::take(&mut self.is_slow) {
            self.budget.slow.give(self.large());
        }
    }

    fn large(&self) -> usize {
        large(self.bytes)
    }

    fn slow_bytes_max(&self) -> usize {
        let divisor = match self.is_known {
            true => SLOW_DIVISOR,
            false => SLOW_UNKNOWN_DIVISOR,
        };
        self.budget.bytes_max / divisor
    }

    /// Takes so many bytes more from the accounts of large bodies; returns `false` when one of them
    /// has not as many left.
    fn take_large(&self, bytes: usize) -> bool {
        let budget = &self.budget;
        let unknown_max = budget.bytes_max / UNKNOWN_DIVISOR;
        if !self.is_known && !budget.unknown.take(bytes, unknown_max) {
            return false;
        }
        if self.is_slow && !budget.slow.take(bytes, self.slow_bytes_max()) {
            if !self.is_known {
                budget.unknown.give(bytes);
            }
            return false;
        }
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.mark_complete();
        self.mark_project_known();
        self.budget.all.give(self.bytes);
    }
}

/// Bytes of a body as they count for large bodies: none if it is small.
const fn large(bytes: usize) -> usize {
    if bytes > SMALL_BYTES_MAX { bytes } else { 0 }
}

// === impl BudgetPart ===

impl BudgetPart {
    /// Takes so many bytes; returns `false` if more than `bytes_max` would be in use.
    fn take(&self, bytes: usize, bytes_max: usize) -> bool {
        if bytes == 0 {
            return true;
        }
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= bytes_max;
        if !fits {
            self.give(bytes);
        }
        fits
    }

    /// Gives so many bytes back.
    fn give(&self, bytes: usize) {
        if bytes > 0 {
            self.0.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Takes shares of a MiB each, as many as fit.
    fn shares(budget: &Arc<Budget>, prepare: impl Fn(&mut Share) -> bool) -> Vec<Share> {
        let share = || {
            let mut share = budget.share();
            (prepare(&mut share) && share.grow_to(MIB)).then_some(share)
        };
        std::iter::from_fn(share).collect()
    }

    fn known(share: &mut Share) -> bool {
        share.mark_project_known();
        true
    }

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
        assert!(!budget.has_capacity(1));
        drop(first);
        assert!(budget.has_capacity(60) && !budget.has_capacity(61));
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn large_bodies_of_unknown_projects_have_half_of_it_and_slow_ones_a_quarter() {
        let budget = Budget::new(16 * MIB);
        let slow = shares(&budget, Share::slow_down);
        assert_eq!(slow.len(), 4);
        let unknown = shares(&budget, |_| true);
        assert_eq!(unknown.len(), 4, "the other quarter is for quick ones");
        let slow_known = shares(&budget, |share| known(share) && share.slow_down());
        assert_eq!(
            slow_known.len(),
            4,
            "unknown ones have a quarter of the half"
        );
        assert_eq!(shares(&budget, known).len(), 4, "the rest");
        drop((slow, unknown, slow_known));
        assert_eq!(shares(&budget, known).len(), 16);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn small_bodies_have_all_that_is_left_however_slow_and_of_whichever_project() {
        let budget = Budget::new(16 * MIB);
        let large = shares(&budget, |share| known(share) && share.slow_down());
        let small = || {
            let mut share = budget.share();
            assert!(share.slow_down());
            share.grow_to(SMALL_BYTES_MAX).then_some(share)
        };
        let mut small: Vec<Share> = std::iter::from_fn(small).collect();
        assert_eq!(small.len(), 8 * MIB / SMALL_BYTES_MAX);
        // One of them cannot grow beyond that, though quick ones would fit.
        small.truncate(10);
        assert!(
            small
                .iter_mut()
                .all(|share| !share.grow_to(SMALL_BYTES_MAX + 1))
        );
        drop((large, small));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_share_leaves_its_accounts_with_all_its_bytes() {
        let budget = Budget::new(8 * MIB);
        let mut share = budget.share();
        assert!(share.grow_to(2 * MIB) && share.slow_down());
        let mut other = budget.share();
        assert!(other.grow_to(2 * MIB) && !other.slow_down(), "a quarter");
        share.mark_complete();
        assert!(other.slow_down());
        share.mark_project_known();
        assert!(share.grow_to(6 * MIB), "all that the other does not have");
        drop((share, other));
        for part in [&budget.all, &budget.unknown, &budget.slow] {
            assert_eq!(part.0.load(Ordering::Relaxed), 0);
        }
    }
}
