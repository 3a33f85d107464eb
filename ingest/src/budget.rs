//! How many bytes of bodies the process holds, and for whom.
//!
//! Bytes are counted, not requests: one body may be a thousand times another. A request asks
//! before it reads, and gives back when its [`Share`] is dropped.
//!
//! Who sends most of a large body at once and then a byte now and then would hold its room for as long as bodies may
//! take, and some fifty of them all there is. So large bodies of projects that are not known, or not yet, have
//! half of the room together; and those that keep us waiting have a quarter, or half as soon as their project
//! is known. Small ones are bounded by the number of connections, and are counted once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes up to which a body is small.
pub const SMALL_BYTES_MAX: usize = 64 << 10;
/// Parts of the room: of strangers' large bodies, of slow large ones, and of those of both.
const STRANGERS_SHARE: usize = 2;
const SLOW_SHARE: usize = 2;
const SLOW_STRANGERS_SHARE: usize = 4;

/// The bytes of bodies in memory, shared by all cores.
#[derive(Debug)]
pub struct Budget {
    all: Account,
    /// Of large bodies whose project is not known.
    strangers: Account,
    /// Of large bodies that keep us waiting.
    slow: Account,
    bytes_max: usize,
}

/// What one request holds of the budget.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    bytes: usize,
    is_known: bool,
    is_slow: bool,
}

/// Bytes in use.
#[derive(Debug, Default)]
struct Account(AtomicUsize);

// === impl Budget ===

impl Budget {
    /// An unused budget.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            all: Account::default(),
            strangers: Account::default(),
            slow: Account::default(),
            bytes_max,
        })
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.all.0.load(Ordering::Relaxed)
    }

    /// Whether so many bytes more would fit at the moment; nothing is taken.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.used().saturating_add(bytes) <= self.bytes_max
    }

    /// A share of nothing, to be grown, of a project that is not known yet.
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
    /// Makes the share at least `bytes` large; `false` when the budget has no room for it.
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

    /// Its project turned out to be known: it is no stranger's any more.
    pub fn is_of_known_project(&mut self) {
        if !std::mem::replace(&mut self.is_known, true) {
            self.budget.strangers.give(self.large());
        }
    }

    /// The body keeps us waiting; `false` when there is no room for another one that does.
    #[must_use]
    pub fn slow_down(&mut self) -> bool {
        self.is_slow = self.is_slow || self.budget.slow.take(self.large(), self.slow_bytes_max());
        self.is_slow
    }

    /// The body is there.
    pub fn is_whole(&mut self) {
        if std::mem::take(&mut self.is_slow) {
            self.budget.slow.give(self.large());
        }
    }

    fn large(&self) -> usize {
        large(self.bytes)
    }

    fn slow_bytes_max(&self) -> usize {
        let share = match self.is_known {
            true => SLOW_SHARE,
            false => SLOW_STRANGERS_SHARE,
        };
        self.budget.bytes_max / share
    }

    /// Takes so many bytes more where large bodies are counted.
    fn take_large(&self, bytes: usize) -> bool {
        let budget = &self.budget;
        let strangers_max = budget.bytes_max / STRANGERS_SHARE;
        if !self.is_known && !budget.strangers.take(bytes, strangers_max) {
            return false;
        }
        if self.is_slow && !budget.slow.take(bytes, self.slow_bytes_max()) {
            if !self.is_known {
                budget.strangers.give(bytes);
            }
            return false;
        }
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.is_whole();
        self.is_of_known_project();
        self.budget.all.give(self.bytes);
    }
}

/// Bytes of a body that count where large ones do.
const fn large(bytes: usize) -> usize {
    if bytes > SMALL_BYTES_MAX { bytes } else { 0 }
}

// === impl Account ===

impl Account {
    /// Takes so many bytes, unless they would be more than that all in all.
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

    /// Shares of a MiB each, as many as there is room for.
    fn shares(budget: &Arc<Budget>, prepare: impl Fn(&mut Share) -> bool) -> Vec<Share> {
        let share = || {
            let mut share = budget.share();
            (prepare(&mut share) && share.grow_to(MIB)).then_some(share)
        };
        std::iter::from_fn(share).collect()
    }

    fn known(share: &mut Share) -> bool {
        share.is_of_known_project();
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
        assert!(!budget.has_room(1));
        drop(first);
        assert!(budget.has_room(60) && !budget.has_room(61));
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn large_bodies_of_strangers_have_half_of_it_and_slow_ones_a_quarter() {
        let budget = Budget::new(16 * MIB);
        let slow = shares(&budget, Share::slow_down);
        assert_eq!(slow.len(), 4);
        let strangers = shares(&budget, |_| true);
        assert_eq!(strangers.len(), 4, "the other quarter is for quick ones");
        let slow_known = shares(&budget, |share| known(share) && share.slow_down());
        assert_eq!(slow_known.len(), 4, "strangers have a quarter of the half");
        assert_eq!(shares(&budget, known).len(), 4, "the rest");
        drop((slow, strangers, slow_known));
        assert_eq!(shares(&budget, known).len(), 16);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn small_bodies_have_all_that_is_left_however_slow_and_whoever_sends_them() {
        let budget = Budget::new(16 * MIB);
        let large = shares(&budget, |share| known(share) && share.slow_down());
        let small = || {
            let mut share = budget.share();
            assert!(share.slow_down());
            share.grow_to(SMALL_BYTES_MAX).then_some(share)
        };
        let mut small: Vec<Share> = std::iter::from_fn(small).collect();
        assert_eq!(small.len(), 8 * MIB / SMALL_BYTES_MAX);
        // One of them cannot grow beyond that, though there is room for quick ones.
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
    fn a_share_leaves_accounts_with_what_it_is_known_for() {
        let budget = Budget::new(8 * MIB);
        let mut share = budget.share();
        assert!(share.grow_to(2 * MIB) && share.slow_down());
        let mut other = budget.share();
        assert!(other.grow_to(2 * MIB) && !other.slow_down(), "a quarter");
        share.is_whole();
        assert!(other.slow_down());
        share.is_of_known_project();
        assert!(share.grow_to(6 * MIB), "all that the other does not have");
        drop((share, other));
        for account in [&budget.all, &budget.strangers, &budget.slow] {
            assert_eq!(account.0.load(Ordering::Relaxed), 0);
        }
    }
}
