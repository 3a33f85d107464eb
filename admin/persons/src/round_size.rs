//! Number of updates in a round: as many as are applied in the time that a round should take.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Smallest round, as a share of the largest: each costs a few queries, whatever it reads.
const SMALLEST: usize = 10;

/// Number of updates that the next round reads at most.
#[derive(Debug)]
pub(crate) struct RoundSize {
    updates: AtomicUsize,
    updates_max: usize,
}

impl RoundSize {
    /// Begins with the largest round.
    pub(crate) const fn new(updates_max: usize) -> Self {
        Self {
            updates: AtomicUsize::new(updates_max),
            updates_max,
        }
    }

    /// Number of updates.
    pub(crate) fn get(&self) -> usize {
        self.updates.load(Ordering::Relaxed)
    }

    /// Halves the next round if this one was applied in more than `time_max`, and doubles it if in
    /// less than a quarter of that.
    pub(crate) fn adapt(&self, took: Duration, time_max: Duration) {
        let now = self.get();
        let next = if took > time_max {
            (now / 2).max(self.updates_max.div_ceil(SMALLEST))
        } else if took < time_max / 4 {
            now.saturating_mul(2).min(self.updates_max)
        } else {
            now
        };
        self.updates.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_as_large_as_its_time_allows() {
        let size = RoundSize::new(1_000);
        let mut after = |millis| {
            size.adapt(Duration::from_millis(millis), Duration::from_secs(1));
            size.get()
        };
        assert_eq!([2_000; 5].map(&mut after), [500, 250, 125, 100, 100]);
        assert_eq!([300, 1_000].map(&mut after), [100, 100]);
        assert_eq!([200; 5].map(&mut after), [200, 400, 800, 1_000, 1_000]);
    }
}
